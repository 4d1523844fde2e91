/**
 * A cluster is changed over, and back, with the commands of the pages alone: real kubectl, real keyferry, copies with the
 * marks of the original. `status`, `plan` and `explain` speak of them.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { it } from 'node:test';

import type { Json } from '../../../support/api.ts';
import { codeBlocks } from '../../../support/markdown.ts';
import { realCommands, type RunScript } from '../../../support/real-commands.ts';
import { AnnotatedScene, opened } from '../support.ts';
import { CLUSTER, type System, SYSTEMS } from '../systems.ts';

const DOCS = path.join(import.meta.dirname, '../../../../docs');

interface Page {
  /** The Deployment of the original, and its image. */
  readonly deployment: readonly [namespace: string, name: string, image: string];
  /** What `plan` says of a copy whose source is gone; `undefined`: of such copies it says nothing. */
  readonly orphan?: RegExp;
  readonly flags: readonly string[];
  /** Makes more objects, before the first look. */
  readonly prepare?: (scene: AnnotatedScene, make: (place: string, source: Json) => Promise<Json>) => Promise<void>;
  /** What `plan` and `status` say of these. */
  readonly planned?: readonly RegExp[];
  readonly status?: readonly RegExp[];
  /** What remains to be looked at when the operator runs. */
  readonly more?: (scene: AnnotatedScene, run: RunScript) => Promise<void>;
}

const REFLECTOR = 'reflector.v1.k8s.emberstack.com';
const MITTWALD = 'replicator.v1.mittwald.de';
const CONTEXTS = 'kubed.appscode.com/sync-contexts';
const UNREAD = /Copies in other clusters \(kubed\.appscode\.com\/sync-contexts\) are not read/;

const PAGES: Readonly<Record<string, Page>> = {
  reflector: {
    deployment: ['kube-system', 'reflector', 'emberstack/kubernetes-reflector'],
    orphan: /^ {2}leave +Secret +team-a +gone +source\/gone .*its source does not exist/m,
    flags: [],
    prepare: async (scene) =>
      void (await scene.put(scene.secrets, 'team-a/pull', {}, { [`${REFLECTOR}/reflects`]: 'source/s' })),
    planned: [/^ {2}update +Secret +team-a +pull +Secret team-a\/pull /m],
    more: async (scene, run) => {
      const { secrets } = scene;
      await secrets.holds('team-a/pull', { a: '1' });
      const { stdout: adopting } = await run('keyferry plan --controllers=reflector --adopt-orphans');
      assert.match(adopting, /^✗ delete +Secret +team-a +gone +Secret source\/gone /m);
      // A copy that Keyferry made shows that it serves reflector.
      const explain = async (flags: string): Promise<string> =>
        (await run(`keyferry explain secret team-c/s ${flags}`)).stdout;
      assert.match(await explain(''), /^Secret team-c\/s is a copy of secret source\/s, /);
      const other = /^Secret team-c\/s has the mark of reflector, which this command does not/;
      assert.match(await explain('--controllers=mirrors'), other);
      assert.match((await run('keyferry status')).stdout, /^✗ reflector +Secret source\/s /m);
    },
  },
  mittwald: {
    deployment: ['kube-system', 'kubernetes-replicator', 'quay.io/mittwald/kubernetes-replicator'],
    orphan: /^ {2}leave +Secret +team-a +gone .*no source of this name/m,
    flags: [],
    prepare: async (scene) => {
      const { configMaps, secrets } = scene;
      const open = {
        [`${MITTWALD}/replication-allowed`]: 'true',
        [`${MITTWALD}/replication-allowed-namespaces`]: '.*',
      };
      for (const [name, permit] of [
        ['pull', open],
        ['denied', {}],
      ] as const) {
        await scene.put(configMaps, `source/${name}`, { a: '1' }, permit);
        await scene.put(
          configMaps,
          `team-a/${name}`,
          { own: '1' },
          { [`${MITTWALD}/replicate-from`]: `source/${name}` },
        );
      }
      const half = { [`${MITTWALD}/replicate-to`]: 'team|a', [`${MITTWALD}/strip-labels`]: 'false' };
      await scene.put(secrets, 'source/half', { a: '1' }, half);
    },
    planned: [
      /^ {2}update +ConfigMap +team-a +pull +ConfigMap team-a\/pull /m,
      /^! fail +ConfigMap +team-a +denied .*Denied/m,
      /"team\|a" matches whole names only; kubernetes-replicator also matches team-a, team-b\./,
      /strip-labels: "false" keeps the labels/,
    ],
    status: [/to pull a ConfigMap, its source must have/],
    more: async ({ configMaps }) => void (await configMaps.holds('team-a/pull', { a: '1', own: '1' })),
  },
  'config-syncer': {
    deployment: ['kubeops', 'config-syncer', 'appscode/config-syncer'],
    flags: [`--config-syncer-cluster-name=${CLUSTER}`],
    prepare: async (scene, make) => {
      const { secrets, api } = scene;
      const far = await scene.put(secrets, 'source/far', { a: '1' });
      await make('team-a/far', far);
      const label = { 'kubed.appscode.com/origin.cluster': 'pegasus' };
      await api.patch(secrets.path('team-a/far'), { metadata: { labels: label } });
      const given = {
        'kubed.appscode.com/sync': 'kubernetes.io/metadata.name in (team-a,team-b)',
        [CONTEXTS]: 'other',
      };
      await scene.say(secrets, 'source/far', given);
    },
    planned: [/^ {2}create +Secret +team-b +far +Secret source\/far/m, UNREAD],
    status: [/OriginConflict/, UNREAD],
    more: async (scene, run) => {
      const { secrets } = scene;
      await secrets.holds('team-b/far', { a: '1' });
      for (const reason of ['OriginConflict', 'IllFormed']) await secrets.warning('source/far', reason);
      const explain = `keyferry explain --controllers=config-syncer --config-syncer-cluster-name=${CLUSTER}`;
      assert.match((await run(`${explain} secret team-a/s`)).stdout, UNREAD);
      await scene.say(secrets, 'source/far', { [CONTEXTS]: null });
      assert.doesNotMatch((await run(explain.replace('explain', 'plan'))).stdout, UNREAD);
    },
  },
};

for (const system of SYSTEMS.filter(({ name }) => name in PAGES))
  it(`the commands of the section "Switch over" of docs/${system.name}.md change a cluster over and back, and status, plan and explain say what is what`, async () => {
    await using stack = new AsyncDisposableStack();
    const scene = await opened(stack, AnnotatedScene, 'keyferry', 'kubeops', 'source', 'team-a', 'team-b');
    await changeOver(scene, system, PAGES[system.name] as Page);
  });

async function changeOver(scene: AnnotatedScene, system: System, page: Page): Promise<void> {
  const { secrets, api, plane } = scene;
  const { name: controller, original } = system;
  const run = await realCommands(plane.kubeconfigPath);
  const [home, program] = page.deployment;
  const deploymentPath = (namespace: string, name: string): string =>
    `/apis/apps/v1/namespaces/${namespace}/deployments/${name}`;
  for (const [namespace, name, its] of [page.deployment, ['keyferry', 'keyferry', 'keyferry']] as const) {
    const labels = { app: name };
    const template = { metadata: { labels }, spec: { containers: [{ name, image: its }] } };
    const spec = { selector: { matchLabels: labels }, template };
    await api.create({ apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name, namespace }, spec });
  }
  const replicas = async (namespace: string, name: string): Promise<number> =>
    (await api.get(deploymentPath(namespace, name))).spec.replicas;
  const make = async (place: string, source: Json): Promise<Json> => {
    const [namespace, name] = place.split('/');
    return await api.create({ ...source, metadata: { namespace, name, ...original(source) } });
  };
  const source = await scene.put(secrets, 'source/s', { a: '1' }, system.push('team-a', 'team-b', 'team-c'));
  const made = await make('team-a/s', source);
  const gone = { ...source, metadata: { ...source.metadata, name: 'gone' } };
  await make('team-a/gone', gone);
  await secrets.create('team-b/s', { own: '1' });
  await page.prepare?.(scene, make);

  const blocks = codeBlocks(readFileSync(path.join(DOCS, `${controller}.md`), 'utf8')).filter(
    ({ heading, language }) => heading === 'Switch over' && language === 'sh',
  );
  const [look = '', stop = '', check = '', back = ''] = blocks.map(({ text }) => text);
  const { stdout: planned, code } = await run(look);
  assert.equal(code, 3, 'a conflict');
  assert.match(planned, new RegExp(`^cluster: ${program} still runs \\(Deployment ${home}/${program}\\)`, 'm'));
  for (const row of [
    /^ {2}adopt +Secret +team-a +s +Secret source\/s /m,
    /^! conflict +Secret +team-b +s +Secret source\/s /m,
    ...(page.orphan === undefined ? [] : [page.orphan]),
    ...(page.planned ?? []),
  ])
    assert.match(planned, row);
  await run(stop);
  assert.equal(await replicas(home, program), 0);
  assert.doesNotMatch((await run(look)).stdout, /still runs/);
  const untouched = ['source/s', 'team-b/s', 'team-a/gone'];
  const before = await secrets.versions(untouched);
  const { stdout: unnamed } = await run('keyferry plan');
  assert.doesNotMatch(unnamed, /source\/s/, 'the copies of the original do not make the controller count');
  const args = [`--controllers=${controller}`, ...page.flags];
  const operator = await scene.operator([], { command: 'run', args });
  await secrets.warning('source/s', 'Conflict');
  const placed = ({ metadata }: Json): boolean => metadata.annotations['keyferry.dev/target'] === 'team-a/s';
  assert.equal((await secrets.becomes('team-a/s', placed, 'adopted')).metadata.uid, made.metadata.uid);
  await scene.namespaces('team-c');
  await secrets.holds('team-c/s', { a: '1' });
  const { stdout: status } = await run(check);
  for (const line of [/source\/s|source +s/, /Conflict/, ...(page.status ?? [])]) assert.match(status, line);
  await page.more?.(scene, run);
  assert.equal(await secrets.versions(untouched), before);
  assert.doesNotMatch((await run(look)).stdout, /^.? *(adopt|create|update|replace|delete) /m);
  const explain = `keyferry explain ${args.join(' ')} secret team-a/s`;
  assert.match((await run(explain)).stdout, /source\/s/);
  await operator.stop();
  await run(back);
  assert.deepEqual([await replicas('keyferry', 'keyferry'), await replicas(home, program)], [0, 1]);
}
