/** Shows the replicator: an annotation on a Secret names its source, or the namespaces that get copies. */
import { randomBytes } from 'node:crypto';

import { listEach } from '../../src/kube/list-each.ts';
import { annotationNames, isReplicatorAnnotation } from '../../src/controllers/replicator/words.ts';
import type { KubeObject } from '../../src/kube/api.ts';
import { Arrivals } from '../arrivals.ts';
import { took } from '../screen.ts';
import type { Stage, Walk } from '../walk.ts';
import { apply } from './apply.ts';
import { password, patchPassword, type Place, secretPath, showPassword } from './secrets.ts';

/** The annotations with their default prefix. */
const NAMES = annotationNames('k8s-replicator');
const CREDENTIALS = { namespace: 'default', name: 'database-credentials' } as const;
const LOCAL = { namespace: 'team-a', name: 'local-database-credentials' } as const;
const RANDOM = { namespace: 'team-a', name: 'admin-password-source' } as const;
const ONCE = { namespace: 'team-a', name: 'admin-password' } as const;
const TLS = { namespace: 'jx', name: 'tls-example-com' } as const;
const LATE = 'jx-preview-7';
const NAMESPACES = ['team-a', 'jx', 'jx-staging', LATE] as const;
/** Matches the same namespaces as the pattern in the annotation of the TLS Secret. */
const MATCHED = /^jx-/;

export const replicatorWalk: Walk = {
  name: 'replicator',
  servers: [],
  title: 'Replicator: annotations on Secrets and ConfigMaps',

  async check({ cluster, signal }) {
    for (const collection of ['/api/v1/secrets', '/api/v1/configmaps']) {
      let annotated = 0;
      const count = ({ metadata }: KubeObject): void => {
        const keys = Object.keys(metadata.annotations ?? {});
        if (keys.some((key) => isReplicatorAnnotation(NAMES, key))) annotated += 1;
      };
      await listEach(cluster.api, collection, count, { metadataOnly: true, signal });
      if (annotated === 0) continue;
      throw new Error(
        `this cluster has ${annotated} objects with ${NAMES.prefix} annotations in ${collection}; the demo would reconcile them`,
      );
    }
    if ((await cluster.find(secretPath(CREDENTIALS))) !== undefined)
      throw new Error(`Secret ${key(CREDENTIALS)} already exists; the demo would change it`);
    const there = (await cluster.list('/api/v1/namespaces')).map(({ metadata }) => metadata.name);
    const ours: readonly string[] = NAMESPACES;
    const inTheWay = there.filter((name) => ours.includes(name) || MATCHED.test(name));
    if (inTheWay.length > 0) throw new Error(`the demo would copy to existing namespaces: ${inTheWay.join(', ')}`);
  },

  async run(stage) {
    await using arrivals = new Arrivals(stage.cluster.api, { collection: 'secrets', path: '/api/v1/secrets' });
    await arrivals.synced;
    await askWithoutPermission(stage);
    await thenAllow(stage, arrivals);
    await pushOnce(stage, arrivals);
    await nextRelease(stage, arrivals);
    await spread(stage, arrivals);
    await lateNamespace(stage, arrivals);
  },

  /** Does nothing: the objects of the walk still exist. */
  leave: () => Promise.resolve(),

  async clean({ cluster }) {
    for (const place of [RANDOM, TLS, CREDENTIALS]) await cluster.delete(secretPath(place));
    for (const namespace of NAMESPACES) await cluster.delete(`/api/v1/namespaces/${namespace}`);
  },
};

async function askWithoutPermission(stage: Stage): Promise<void> {
  const { screen, cluster, until } = stage;
  await stage.section('Database credentials: a Secret without permission for its source');
  await apply(stage, 'database-credentials.yaml');
  await apply(stage, 'local-database-credentials.yaml');
  const denial = await until('the refusal as an event', async () => {
    const events = await cluster.list(`/api/v1/namespaces/${LOCAL.namespace}/events`);
    return events.find((event) => (event as KubeObject & { reason?: string }).reason === 'Denied');
  });
  await showKeys(stage, LOCAL);
  screen.note(`Denied: ${(denial as KubeObject & { message?: string }).message ?? ''}`);
}

async function thenAllow(stage: Stage, arrivals: Arrivals): Promise<void> {
  const { screen, cluster, until } = stage;
  await stage.section('The source allows the copy');
  const before = (await cluster.find(secretPath(LOCAL)))?.metadata.resourceVersion;
  screen.command(
    `kubectl -n ${CREDENTIALS.namespace} annotate secret ${CREDENTIALS.name} ${NAMES.allowedNamespaces}='team-.*'`,
  );
  const startedAt = performance.now();
  await cluster.mergePatch(secretPath(CREDENTIALS), {
    metadata: { annotations: { [NAMES.allowedNamespaces]: 'team-.*' } },
  });
  screen.output([`secret/${CREDENTIALS.name} annotated`]);
  screen.blank();
  const at = await until(`${key(LOCAL)} to be filled`, () => arrivals.newerThan(key(LOCAL), before));
  await showKeys(stage, LOCAL);
  screen.done(key(LOCAL), `filled ${took(at - startedAt)} after the source allowed it`);
}

async function pushOnce(stage: Stage, arrivals: Arrivals): Promise<void> {
  const { screen, until } = stage;
  await stage.section('A random password, copied once');
  const [startedAt = 0] = await apply(stage, 'admin-password-source.yaml');
  const at = await until(`the copy ${key(ONCE)}`, () => arrivals.newerThan(key(ONCE)));
  screen.done(key(ONCE), `${took(at - startedAt)} after its source`);
}

/**
 * Changes first the random password, then the credentials. When Keyferry has copied the credentials, it has also seen
 * the new random password, so a copy of that password would be there.
 */
async function nextRelease(stage: Stage, arrivals: Arrivals): Promise<void> {
  const { screen, cluster, until } = stage;
  await stage.section('The next release changes the random password, and the password of the database changes, too');
  screen.note(
    'The random password is not copied again, because of the annotation replicate-once. The credentials are copied.',
  );
  screen.blank();
  const kept = await password(stage, ONCE);
  const before = (await cluster.find(secretPath(LOCAL)))?.metadata.resourceVersion;
  await patchPassword(stage, RANDOM, randomBytes(16).toString('hex'));
  const { startedAt } = await patchPassword(stage, CREDENTIALS, randomBytes(8).toString('hex'));
  const at = await until(`${key(LOCAL)} to be updated`, () => arrivals.newerThan(key(LOCAL), before));
  screen.blank();
  screen.done(key(LOCAL), `updated ${took(at - startedAt)} after the change`);
  if ((await showPassword(stage, ONCE)) !== kept)
    throw new Error(`${key(ONCE)} has changed, although it must be copied only once`);
  screen.done(key(ONCE), 'unchanged: it is copied only once');
}

async function spread(stage: Stage, arrivals: Arrivals): Promise<void> {
  const { screen, until } = stage;
  await stage.section('A TLS certificate for all namespaces that match a pattern');
  const startedAt = (await apply(stage, 'tls-example-com.yaml')).at(-1) ?? 0;
  const copy = { ...TLS, namespace: 'jx-staging' };
  const at = await until(`the copy ${key(copy)}`, () => arrivals.newerThan(key(copy)));
  screen.done(key(copy), `${took(at - startedAt)} after its source`);
}

async function lateNamespace(stage: Stage, arrivals: Arrivals): Promise<void> {
  const { screen, cluster, until } = stage;
  await stage.section('A namespace that is created later');
  const [startedAt = 0] = await apply(stage, 'late-namespace.yaml');
  const copy = { ...TLS, namespace: LATE };
  const at = await until(`the copy ${key(copy)}`, () => arrivals.newerThan(key(copy)));
  const fieldSelector = `metadata.name=${TLS.name}`;
  screen.command(`kubectl get secrets -A --field-selector ${fieldSelector}`);
  screen.output(await cluster.table('/api/v1/secrets', { all: true, query: { fieldSelector } }));
  screen.blank();
  screen.done(key(copy), `${took(at - startedAt)} after its namespace was created`);
}

async function showKeys({ cluster, screen }: Stage, { namespace, name }: Place): Promise<void> {
  const fieldSelector = `metadata.name=${name}`;
  screen.command(`kubectl -n ${namespace} get secret ${name}`);
  screen.output(await cluster.table(`/api/v1/namespaces/${namespace}/secrets`, { query: { fieldSelector } }));
  screen.blank();
}

function key({ namespace, name }: Place): string {
  return `${namespace}/${name}`;
}
