/** Shows SecretMirror: Keyferry copies a Secret to all matching namespaces and keeps the copies up to date. */
import type { KubeObject } from '../../src/kube/api.ts';
import { isNotFound } from '../../src/kube/errors.ts';
import { Arrivals } from '../arrivals.ts';
import { took } from '../screen.ts';
import type { Stage, Walk } from '../walk.ts';
import { apply } from './apply.ts';
import { password, patchPassword, type Place, secretPath, showPassword } from './secrets.ts';

const HOME = 'default';
const MIRRORS = `/apis/mirrors.kts.studio/v1alpha2/namespaces/${HOME}/secretmirrors`;
const ALL_MIRRORS = '/apis/mirrors.kts.studio/v1alpha2/secretmirrors';
const MIRROR = `${MIRRORS}/mysecret-mirror`;
const NAME = 'mysecret';
const TARGETS = ['project-a-main', 'project-b-main'] as const;
/** Matches the same namespaces as the pattern in the SecretMirror of the walk. */
const MATCHED = /^project-[ab]-/;
const BY_NAME = `metadata.name=${NAME}`;

interface Mirror extends KubeObject {
  readonly status?: {
    readonly mirrorStatus?: string;
    readonly conditions?: readonly { readonly reason: string; readonly message: string }[];
  };
}

export const mirrorsWalk: Walk = {
  name: 'mirrors',
  servers: [],
  title: 'SecretMirror: one Secret in many namespaces',

  async check({ cluster }) {
    const taken = await cluster.find(secretPath(secretIn(HOME)));
    if (taken !== undefined) throw new Error(`Secret ${HOME}/${NAME} already exists; the demo would change it`);
    const mirrors = await cluster.list(ALL_MIRRORS);
    if (mirrors.length > 0) {
      throw new Error(`this cluster already has ${mirrors.length} SecretMirrors; the demo would reconcile them`);
    }
    const namespaces = (await cluster.list('/api/v1/namespaces')).map(({ metadata }) => metadata.name);
    const matching = namespaces.filter((name) => MATCHED.test(name));
    if (matching.length > 0) {
      throw new Error(`the demo would copy to existing namespaces: ${matching.join(', ')}`);
    }
  },

  async run(stage) {
    await using arrivals = new Arrivals(stage.cluster.api, {
      collection: 'secrets',
      scope: 'demo',
      path: '/api/v1/secrets',
      fieldSelector: BY_NAME,
    });
    await arrivals.synced;
    await mirrorFirst(stage);
    await thenTheSource(stage);
    await thenNamespaces(stage, arrivals);
    await sourceChanges(stage, arrivals);
    await changedByHand(stage, arrivals);
    await mirrorGoes(stage, arrivals);
  },

  async leave(stage) {
    const [mirror] = await stage.cluster.manifests('mysecret-mirror.yaml');
    if (mirror === undefined) return;
    await stage.cluster.create(mirror);
    await statusOf(stage, 'Active');
  },

  async clean({ cluster, until }) {
    await cluster.delete(MIRROR);
    await until('the mirror to be deleted', async () => ((await gone(cluster.api, MIRROR)) ? true : undefined));
    await cluster.delete(secretPath(secretIn(HOME)));
    for (const namespace of TARGETS) await cluster.delete(`/api/v1/namespaces/${namespace}`);
  },
};

async function mirrorFirst(stage: Stage): Promise<void> {
  const { screen } = stage;
  await stage.section('A mirror without its source');
  await apply(stage, 'mysecret-mirror.yaml');
  const mirror = await statusOf(stage, 'Pending', 'NoSecret');
  await showMirrors(stage);
  screen.note(`Pending: ${mirror.status?.conditions?.[0]?.message ?? ''}`);
  screen.note('A sync time of 1970 means never, as in the original.');
}

async function thenTheSource(stage: Stage): Promise<void> {
  const { screen } = stage;
  await stage.section('The source is created');
  const [startedAt = 0] = await apply(stage, 'mysecret.yaml');
  await statusOf(stage, 'Active');
  const activeAt = performance.now();
  await showMirrors(stage);
  screen.done('Active', `${took(activeAt - startedAt)} after the Secret was created`);
}

async function thenNamespaces(stage: Stage, arrivals: Arrivals): Promise<void> {
  const { screen } = stage;
  await stage.section('Two matching namespaces');
  const startedAt = await apply(stage, 'namespaces.yaml');
  const lines: [string, number][] = [];
  for (const [index, namespace] of TARGETS.entries()) {
    const at = await stage.until(`the copy in ${namespace}`, () => arrivals.newerThan(`${namespace}/${NAME}`));
    lines.push([namespace, at - (startedAt[index] ?? 0)]);
  }
  await showSecrets(stage);
  for (const [namespace, ms] of lines)
    screen.done(`${namespace}/${NAME}`, `${took(ms)} after its namespace was created`);
}

async function sourceChanges(stage: Stage, arrivals: Arrivals): Promise<void> {
  const { screen, cluster, until } = stage;
  await stage.section('The source changes');
  const before = new Map<string, string>();
  for (const namespace of TARGETS) {
    before.set(namespace, (await cluster.find(secretPath(secretIn(namespace))))?.metadata.resourceVersion ?? '0');
  }
  const { startedAt } = await patchPassword(stage, secretIn(HOME), 'a-bold-one');
  for (const namespace of TARGETS) {
    const key = `${namespace}/${NAME}`;
    const at = await until(`the change in ${namespace}`, () => arrivals.newerThan(key, before.get(namespace)));
    screen.done(key, `updated ${took(at - startedAt)} after the change`);
  }
}

async function changedByHand(stage: Stage, arrivals: Arrivals): Promise<void> {
  const { screen, cluster, until } = stage;
  const [edited, deleted] = TARGETS;
  await stage.section('A user edits one copy and deletes the other');
  const edit = await patchPassword(stage, secretIn(edited), 'edited-by-hand');
  const repairedAt = await until(`the repair in ${edited}`, () =>
    arrivals.newerThan(`${edited}/${NAME}`, edit.resourceVersion),
  );
  await until(`the copy in ${edited} to equal its source`, async () =>
    (await password(stage, secretIn(edited))) === (await password(stage, secretIn(HOME))) ? true : undefined,
  );
  await showPassword(stage, secretIn(edited));
  screen.done(`${edited}/${NAME}`, `repaired ${took(repairedAt - edit.startedAt)} after the edit`);
  screen.blank();
  screen.command(`kubectl -n ${deleted} delete secret ${NAME}`);
  const before = (await cluster.find(secretPath(secretIn(deleted))))?.metadata.resourceVersion ?? '0';
  const deletedAt = performance.now();
  await cluster.delete(secretPath(secretIn(deleted)));
  screen.output([`secret "${NAME}" deleted from ${deleted} namespace`]);
  const backAt = await until(`the new copy in ${deleted}`, () => arrivals.newerThan(`${deleted}/${NAME}`, before));
  screen.done(`${deleted}/${NAME}`, `created again ${took(backAt - deletedAt)} after it was deleted`);
}

async function mirrorGoes(stage: Stage, arrivals: Arrivals): Promise<void> {
  const { screen, cluster, until } = stage;
  await stage.section('The mirror and its copies are deleted');
  screen.command('kubectl delete secretmirror mysecret-mirror');
  const startedAt = performance.now();
  await cluster.delete(MIRROR);
  const ends: number[] = [];
  for (const namespace of TARGETS) {
    ends.push(await until(`the copy in ${namespace} to be deleted`, () => arrivals.deleted(`${namespace}/${NAME}`)));
  }
  await until('the mirror to be deleted', async () => ((await cluster.find(MIRROR)) === undefined ? true : undefined));
  screen.output([`secretmirror.mirrors.kts.studio "mysecret-mirror" deleted from ${HOME} namespace`]);
  await showSecrets(stage);
  screen.done('only the source is left', `the copies were deleted after ${took(Math.max(...ends) - startedAt)}`);
}

async function showMirrors({ cluster, screen }: Stage): Promise<void> {
  screen.command('kubectl get secretmirrors');
  screen.output(await cluster.table(MIRRORS));
  screen.blank();
}

async function showSecrets({ cluster, screen }: Stage): Promise<void> {
  screen.command(`kubectl get secrets -A --field-selector ${BY_NAME}`);
  screen.output(await cluster.table('/api/v1/secrets', { all: true, query: { fieldSelector: BY_NAME } }));
  screen.blank();
}

async function statusOf({ cluster, until }: Stage, status: string, reason?: string): Promise<Mirror> {
  return await until(`the mirror to be ${status}`, async () => {
    const mirror: Mirror | undefined = await cluster.find(MIRROR);
    const agrees = reason === undefined || mirror?.status?.conditions?.[0]?.reason === reason;
    return mirror?.status?.mirrorStatus === status && agrees ? mirror : undefined;
  });
}

/** Whether an object does not exist. Can also be called when the demo is being stopped. */
async function gone(api: Stage['cluster']['api'], reference: string): Promise<boolean> {
  try {
    await api.request({ method: 'GET', path: reference });
    return false;
  } catch (error) {
    if (isNotFound(error)) return true;
    throw error;
  }
}

function secretIn(namespace: string): Place {
  return { namespace, name: NAME };
}
