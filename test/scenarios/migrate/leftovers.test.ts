/**
 * Tests copies whose source was deleted while neither the original nor Keyferry ran: which commands report these
 * copies, and how `migrate --apply --delete-leftovers` deletes them.
 */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import { explainSchema, statusSchema } from '../../../scripts/reports/schemas.ts';
import { startControlPlane, type ControlPlane } from '../../servers/control-plane.ts';
import type { FaultProxy } from '../../servers/fault-proxy.ts';
import { proxied } from '../../servers/proxied.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { waitFor } from '../../support/wait-for.ts';
import { runProgram } from '../cli/program.ts';
import { type Map, path, Scene } from './scene.ts';

const PREFIX = 'k8s-replicator/';
const PROGRAM = ['--from', 'k8s-replicator'];
const DELETE = [...PROGRAM, '--apply', '--delete-leftovers'];

let plane: ControlPlane;
let scene: Scene;
let proxy: FaultProxy;
let throughProxy: string;
const resources = new AsyncDisposableStack();

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  resources.defer(() => plane.stop());
  const through = await proxied(plane);
  ({ proxy, kubeconfig: throughProxy } = through);
  resources.defer(() => proxy.stop());
  scene = new Scene(plane);
  await plane.api.createNamespaces(['home', 'team-a', 'team-b', 'other']);
});
afterEach(() => proxy.clearRules());
after(() => resources.disposeAsync());

/** The annotations that k8s-replicator writes on a copy of this source. */
const copyOf = (source: string, more: Map = {}): Map => ({
  [`${PREFIX}replicated-by`]: source,
  [`${PREFIX}replicated-at`]: '2026-01-02T03:04:05Z',
  [`${PREFIX}replicated-from-version`]: '1',
  ...more,
});
const to = (namespaces: string): Map => ({ [`${PREFIX}replicate-to-namespaces`]: namespaces });
const exists = async (place: string): Promise<boolean> => (await plane.api.find(path(place))) !== undefined;

async function failed(): Promise<string> {
  return (await runProgram(['status', '--failed', `--kubeconfig=${plane.kubeconfigPath}`])).stdout;
}

describe('copies that k8s-replicator left over', () => {
  it('if a source was deleted while k8s-replicator was stopped, migrate, status and explain report its copies in the same words', async () => {
    await scene.secret('team-a/gone', { a: '1' }, copyOf('home/gone'));
    await scene.secret('home/narrowed', { a: '1' }, to('team-a'));
    await scene.secret('team-a/narrowed', { a: '1' }, copyOf('home/narrowed'));
    await scene.secret('team-b/narrowed', { a: '1' }, copyOf('home/narrowed'));
    await scene.secret('home/plain', { a: '1' });
    await scene.secret('team-a/plain', { a: '1' }, copyOf('home/plain'));
    // These copies do not count as left over: either `migrate` cannot judge them, or another object uses them.
    await scene.secret('home/broken', { a: '1' }, to('team-['));
    await scene.secret('team-a/broken', { a: '1' }, copyOf('home/broken'));
    await scene.secret('team-a/used', { a: '1' }, copyOf('home/used'));
    await scene.secret('team-b/uses', { a: '1' }, { [`${PREFIX}replicate-from`]: 'team-a/used' });
    await scene.secret('team-a/chain', {}, copyOf('home/chain', { [`${PREFIX}replicate-from`]: 'home/late' }));
    await scene.secret('team-a/source', { a: '1' }, { ...copyOf('home/source'), ...to('team-b') });
    await scene.secret('team-a/by-hand', { a: '1' }, { [`${PREFIX}replicated-by`]: 'home/by-hand' });
    const reflected = { 'reflector.v1.k8s.emberstack.com/reflection-allowed': 'true' };
    const auto = { ...reflected, 'reflector.v1.k8s.emberstack.com/reflection-auto-enabled': 'true' };
    await scene.secret('other/reflected', { a: '1' }, auto);
    await scene.secret('team-a/reflected', { a: '1' }, copyOf('home/reflected'));
    // A user cloned a copy. The clone belongs to the user, because `keyferry.dev/target` names another object.
    await scene.secret('team-b/cloned', { a: '1' }, copyOf('home/gone', { 'keyferry.dev/target': 'team-a/cloned' }));

    const { code, lines, textOf, report } = await scene.migrate(PROGRAM);
    assert.equal(code, 3);
    assert.deepEqual(lines, [
      'leftover team-a/gone',
      'leftover team-a/plain',
      'leftover team-b/narrowed',
      'manual team-a/broken',
      'manual team-a/by-hand',
      'manual team-a/chain',
      'manual team-a/reflected',
      'manual team-a/source',
      'manual team-a/used',
    ]);
    assert.ok(!report.targets.some(({ action }) => action === 'delete'), 'Keyferry itself deletes none');
    const status = await runProgram(['status', '--failed', '-o', 'json', `--kubeconfig=${plane.kubeconfigPath}`]);
    const { orphans } = statusSchema.parse(JSON.parse(status.stdout));
    assert.deepEqual(
      orphans.map(({ namespace, name }) => `leftover ${namespace}/${name}`).toSorted(),
      lines.filter((line) => line.startsWith('leftover')),
    );
    assert.match(await failed(), /^ORPHAN .*$/m);
    for (const { namespace, name, owner, reason } of orphans) {
      assert.equal(textOf(`leftover ${namespace}/${name}`), `marked by ${owner}: ${reason}`);
      const args = ['explain', 'secret', `${namespace}/${name}`, '-o', 'json', `--kubeconfig=${plane.kubeconfigPath}`];
      const explained = explainSchema.parse(JSON.parse((await runProgram(args)).stdout));
      assert.equal(explained.verdict, 'orphan');
      assert.equal(explained.summary, `Secret ${namespace}/${name} was a copy of ${owner}: ${reason}.`);
    }
  });

  it('migrate --delete-leftovers lists and deletes the copies that k8s-replicator left over, and no other object', async () => {
    const before = (await plane.api.list('/api/v1/secrets')).map(
      ({ metadata }) => `${metadata.namespace}/${metadata.name}`,
    );
    const { code, lines, stderr } = await scene.migrate(DELETE);
    assert.equal(code, 3, 'some cannot be judged');
    const gone = ['team-a/gone', 'team-a/plain', 'team-b/narrowed'];
    assert.deepEqual(
      lines.filter((line) => !line.startsWith('manual')),
      gone.map((place) => `deleted ${place}`),
    );
    for (const place of gone) assert.match(stderr, new RegExp(`^deletes Secret ${place}: marked by home/`, 'm'));
    const after = (await plane.api.list('/api/v1/secrets')).map(
      ({ metadata }) => `${metadata.namespace}/${metadata.name}`,
    );
    assert.deepEqual(
      after,
      before.filter((place) => !gone.includes(place)),
    );
    assert.doesNotMatch(await failed(), /^ORPHAN/m);
  });

  it('while k8s-replicator runs, migrate --delete-leftovers deletes nothing', async () => {
    await scene.secret('team-a/running', { a: '1' }, copyOf('home/running'));
    const labels = { app: 'k8s-replicator' };
    const containers = [{ name: 'k8s-replicator', image: 'olliai/k8s-replicator:1.3.0' }];
    await plane.api.create({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'k8s-replicator', namespace: 'other' },
      spec: { selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
    });
    const { code, stderr } = await runProgram(['migrate', ...DELETE, `--kubeconfig=${plane.kubeconfigPath}`]);
    assert.equal(code, 1);
    assert.match(stderr, /k8s-replicator still runs .*kubectl scale/);
    assert.ok(await exists('team-a/running'));
    await plane.api.delete('/apis/apps/v1/namespaces/other/deployments/k8s-replicator');
  });

  it('migrate --delete-leftovers keeps a copy that was changed or created again after migrate had found it', async () => {
    for (const name of ['edited', 'again']) {
      await scene.secret(`team-a/${name}`, { a: '1' }, copyOf(`home/${name}`));
      const held = Promise.withResolvers<void>();
      const rule = proxy.rule({
        match: { method: 'DELETE', path: `/secrets/${name}` },
        fault: { kind: 'hold', until: held.promise },
      });
      const running = scene.migrate(DELETE, throughProxy);
      await waitFor(() => rule.hits > 0, { message: 'the deletion' });
      if (name === 'edited') await scene.annotate('team-a/edited', { mine: 'x' });
      else {
        await plane.api.delete(path('team-a/again'));
        await scene.secret('team-a/again', { a: 'mine' }, copyOf('home/again'));
      }
      held.resolve();
      const { code, textOf } = await running;
      assert.equal(code, 1);
      assert.match(textOf(`failed team-a/${name}`), /409/);
      assert.ok(await exists(`team-a/${name}`));
      await plane.api.delete(path(`team-a/${name}`));
    }
  });

  it('migrate --delete-leftovers keeps a copy whose source was created again after migrate had found the copy', async () => {
    await scene.secret('team-a/back', { a: '1' }, copyOf('home/back'));
    const held = Promise.withResolvers<void>();
    let lists = 0;
    const rule = proxy.rule({
      match: ({ method, path: where }) => method === 'GET' && where === '/api/v1/secrets' && (lists += 1) > 1,
      fault: { kind: 'hold', until: held.promise },
    });
    const running = scene.migrate(DELETE, throughProxy);
    await waitFor(() => rule.hits > 0, { message: 'the second look' });
    await scene.secret('home/back', { a: '1' }, to('team-a'));
    held.resolve();
    const { lines, textOf } = await running;
    assert.ok(lines.includes('skipped team-a/back'), lines.join('\n'));
    assert.match(textOf('skipped team-a/back'), /no longer a leftover/);
    assert.ok(await exists('team-a/back'));
  });
});

describe('migrate --apply', () => {
  const REFLECTOR = 'reflector.v1.k8s.emberstack.com/';
  const auto = { [`${REFLECTOR}reflection-allowed`]: 'true', [`${REFLECTOR}reflection-auto-enabled`]: 'true' };
  const only = (name: string): Map => ({ ...auto, [`${REFLECTOR}reflection-auto-namespaces`]: `aa-${name}` });
  const mirror = (of: string): Map => ({ [`${REFLECTOR}reflects`]: of, [`${REFLECTOR}auto-reflects`]: 'True' });
  const APPLY = ['--from', 'reflector', '--apply'];

  /** Creates a source, and a copy in a namespace that comes before the source's namespace in a list. */
  async function pair(name: string): Promise<void> {
    await plane.api.createNamespaces([`aa-${name}`, `zz-${name}`]);
    await scene.secret(`zz-${name}/${name}`, { a: '1' }, only(name));
    await scene.secret(`aa-${name}/${name}`, { a: '1' }, mirror(`zz-${name}/${name}`));
  }

  it('migrate --apply writes a source before its copies, even if the copies come first in the list of objects', async () => {
    await pair('order');
    await scene.migrate(APPLY, throughProxy);
    const written = proxy.requests.filter(({ method, url }) => method === 'PATCH' && url.includes('order'));
    assert.deepEqual(
      written.map(({ url }) => /namespaces\/([^/]+)/.exec(url)?.[1]),
      ['zz-order', 'aa-order'],
    );
  });

  for (const [changed, expected] of [
    ['zz', ['failed zz-moved', 'skipped aa-moved']],
    ['aa', ['failed aa-moved', 'written zz-moved']],
  ] as const) {
    it(`migrate --apply does not overwrite an object that was changed after migrate listed it (in the namespace ${changed}-…)`, async () => {
      const name = `moved-${changed}`;
      await pair(name);
      const held = Promise.withResolvers<void>();
      const rule = proxy.rule({
        match: { method: 'PATCH', path: `/namespaces/${changed}-${name}/` },
        fault: { kind: 'hold', until: held.promise },
      });
      const running = scene.migrate(APPLY, throughProxy);
      await waitFor(() => rule.hits > 0, { message: 'the write' });
      await scene.annotate(`${changed}-${name}/${name}`, { mine: 'x' });
      held.resolve();
      const { code, lines, textOf } = await running;
      assert.equal(code, 1);
      const suffix = `-${changed}/${name}`;
      assert.deepEqual(
        lines.filter((line) => line.endsWith(suffix)),
        expected.map((line) => `${line}${suffix}`),
      );
      assert.match(textOf(`failed ${changed}-${name}/${name}`), /409/);
      const { annotations } = (await plane.api.get(path(`${changed}-${name}/${name}`))).metadata;
      assert.ok(!Object.keys(annotations).some((key) => key.startsWith(PREFIX)));
    });
  }
});

failOnLeaks();
