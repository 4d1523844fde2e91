/**
 * `keyferry migrate` must never advise to delete a copy that another program still makes or uses. If a user follows the
 * advice, Keyferry adopts the copies.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { startControlPlane, type ControlPlane } from '../../servers/control-plane.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { type Map, path, Scene } from './scene.ts';

let plane: ControlPlane;
let scene: Scene;
const resources = new AsyncDisposableStack();

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  resources.defer(() => plane.stop());
  scene = new Scene(plane);
  await plane.api.createNamespaces(['home', 'team-a', 'team-b', 'other', 'my-dev']);
});
after(() => resources.disposeAsync());

const TO_NAMESPACES = 'k8s-replicator/replicate-to-namespaces';
const ALLOWED_NAMESPACES = 'k8s-replicator/replication-allowed-namespaces';

/**
 * Does what the advice of `migrate` tells the user: writes the namespaces of the copies on their source. Checks that
 * `migrate --apply` and the operator then adopt all copies.
 */
async function adoptsAfter(
  program: string,
  source: string,
  namespaces: string,
  copies: readonly string[],
): Promise<void> {
  await scene.annotate(source, { [TO_NAMESPACES]: namespaces });
  const uids = await Promise.all(copies.map(async (copy) => (await plane.api.get(path(copy))).metadata.uid));
  const { report, lines } = await scene.migrate(['--from', program, '--apply']);
  for (const copy of copies) assert.ok(lines.includes(`written ${copy}`), lines.join('\n'));
  const name = source.split('/')[1];
  assert.deepEqual(
    report.targets.filter((target) => target.name === name && target.action !== 'create'),
    [],
    'no conflict is left',
  );
  await scene.withOperator(async () => {
    await scene.change(source, { a: '2' });
    for (const [index, copy] of copies.entries()) {
      assert.equal((await scene.holds(copy, 'a', '2')).metadata.uid, uids[index], `${copy} was taken over`);
    }
  });
}

describe("migrate with config-syncer's copies", () => {
  const PREFIX = 'kubed.appscode.com/';
  const from = (place: string, cluster = 'unicorn'): Map => {
    const [namespace = '', name = ''] = place.split('/');
    return {
      [`${PREFIX}origin.name`]: name,
      [`${PREFIX}origin.namespace`]: namespace,
      [`${PREFIX}origin.cluster`]: cluster,
    };
  };
  const sync = (selector: string): Map => ({ [`${PREFIX}sync`]: selector });

  it('migrate treats a source on which config-syncer wrote origin labels as a source, not as a copy', async () => {
    await scene.secret('home/stamped', { a: '1' }, sync(''), from('home/stamped'));
    await scene.secret('team-a/stamped', { a: '1' }, {}, from('home/stamped'));
    // This object was a source. Its annotation was removed, and its origin labels stayed.
    await scene.secret('home/plain', { a: '1' }, {}, from('home/plain'));
    // Two sources with one name overwrite each other's origin labels.
    await scene.secret('home/twin', { a: '1' }, sync(''), from('team-a/twin'));
    await scene.secret('team-a/twin', { a: '1' }, sync(''), from('home/twin'));
    const { lines, texts } = await scene.migrate(['--from', 'config-syncer', '--apply']);
    assert.deepEqual(lines, [
      'written home/stamped',
      'written home/twin',
      'written team-a/stamped',
      'written team-a/twin',
    ]);
    assert.deepEqual(
      texts.filter((text) => text.includes('delete')),
      [],
    );
    await scene.withOperator(async () => {
      await scene.change('home/stamped', { a: '2' });
      await scene.holds('team-a/stamped', 'a', '2');
      await scene.holds('other/stamped', 'a', '2');
    });
  });

  it('Keyferry adopts the copies that config-syncer made by a selector after the user writes their namespaces on the source', async () => {
    await scene.secret('home/selected', { a: '1' }, sync('app=x'), from('home/selected'));
    const copies = ['team-a/selected', 'team-b/selected'];
    for (const copy of copies) await scene.secret(copy, { a: '1' }, {}, from('home/selected'));
    const { code, lines, textOf } = await scene.migrate(['--from', 'config-syncer']);
    assert.equal(code, 3);
    for (const line of ['unsupported home/selected', 'manual team-a/selected']) {
      assert.ok(lines.includes(line), lines.join('\n'));
      assert.match(textOf(line), /k8s-replicator\/replicate-to-namespaces on .*run this command again$/);
    }
    await adoptsAfter('config-syncer', 'home/selected', 'team-a,team-b', copies);
    assert.ok(!(await scene.migrate(['--from', 'config-syncer'])).lines.includes('unsupported home/selected'));
  });

  it('migrate reports no copy of config-syncer as left over, because the source may be in another cluster that has the same name', async () => {
    // The chart of config-syncer names every cluster `unicorn`, and any user can write these labels.
    const { metadata } = await scene.secret('home/known', { a: '1' }, sync(''));
    const origin = { [`${PREFIX}origin`]: JSON.stringify({ namespace: 'home', name: 'known', uid: metadata.uid }) };
    await scene.secret('team-a/known', { a: '1' }, origin, from('home/known'));
    await scene.secret('team-a/gone', { a: '1' }, {}, from('home/gone'));
    await scene.secret('team-b/gone', { a: '1' }, {}, from('home/gone', 'far-away'));
    const { lines, textOf } = await scene.migrate(['--from', 'config-syncer']);
    assert.deepEqual(
      lines.filter((line) => line.startsWith('leftover')),
      [],
    );
    assert.match(textOf('manual team-a/gone'), /in the cluster "unicorn", which may be another cluster/);
    assert.match(textOf('manual team-b/gone'), /in the cluster "far-away", which may be another cluster/);
  });
});

describe("migrate with reflector's copies", () => {
  const PREFIX = 'reflector.v1.k8s.emberstack.com/';
  const reflects = (place: string): Map => ({ [`${PREFIX}reflects`]: place, [`${PREFIX}auto-reflects`]: 'True' });

  it('migrate does not report a copy of reflector as left over if a rule of another program makes or uses the copy', async () => {
    await scene.secret('team-a/lost', { a: '1' }, reflects('home/lost'));
    await scene.secret('other/maybe', { a: '1' }, { 'kubed.appscode.com/sync': 'app=x' });
    await scene.secret('team-a/maybe', { a: '1' }, reflects('home/maybe'));
    await scene.secret('team-a/drawn', { a: '1' }, reflects('home/drawn'));
    await scene.secret('team-b/puller', { a: '1' }, { 'replicator.v1.mittwald.de/replicate-from': 'team-a/drawn' });
    await scene.secret('team-a/offered', { a: '1' }, reflects('home/offered'), {
      'kubelb.k8c.io/managed-by': 'kubelb',
    });
    const { lines, textOf } = await scene.migrate(['--from', 'reflector']);
    assert.deepEqual(
      lines.filter((line) => line.startsWith('leftover')),
      ['leftover team-a/lost'],
    );
    assert.match(
      textOf('leftover team-a/lost'),
      /^marked by home\/lost: its source does not exist; Keyferry keeps it until/,
    );
    assert.match(textOf('manual team-a/maybe'), /config-syncer may push other\/maybe here/);
    assert.match(textOf('manual team-a/drawn'), /kubernetes-replicator fills team-b\/puller from it/);
    assert.match(textOf('manual team-a/offered'), /offers it to the secret synchronizer/);
  });
});

describe("migrate with kubernetes-replicator's copies", () => {
  const PREFIX = 'replicator.v1.mittwald.de/';
  const copied = { [`${PREFIX}replicated-from-version`]: '1', [`${PREFIX}replicated-keys`]: 'a' };
  const PROGRAM = 'kubernetes-replicator';

  it('migrate reads a leading * in replicate-to as kubernetes-replicator does, and a source with the marks of a copy stays a source', async () => {
    await scene.secret('home/all', { a: '1' }, { [`${PREFIX}replicate-to`]: '*', ...copied });
    await scene.secret('home/dev', { a: '1' }, { [`${PREFIX}replicate-to`]: '*-dev' });
    await scene.secret('team-a/all', { a: '1' }, copied);
    await scene.secret('my-dev/dev', { a: '1' }, copied);
    const { lines, textOf } = await scene.migrate(['--from', PROGRAM, '--apply']);
    assert.deepEqual(
      lines.filter((line) => /\/(all|dev)$/.test(line)),
      ['written home/all', 'written home/dev', 'written my-dev/dev', 'written team-a/all'],
    );
    assert.match(textOf('written home/dev'), /replicate-to-namespaces="\.\*-dev"/);
  });

  for (const [name, annotation, namespaces] of [
    ['by-label', { [`${PREFIX}replicate-to-matching`]: 'app=x' }, 'team-a,team-b'],
    ['half', { [`${PREFIX}replicate-to`]: 'team|other' }, 'team.*,other'],
    ['misread', { [`${PREFIX}replicate-to`]: '(?!x).*' }, 'team-.*'],
  ] as const) {
    it(`Keyferry adopts the copies that kubernetes-replicator made for ${JSON.stringify(annotation)} after the user writes their namespaces on the source`, async () => {
      const source = `home/${name}`;
      await scene.secret(source, { a: '1' }, annotation);
      const copies = [`team-a/${name}`, `team-b/${name}`];
      for (const copy of copies) await scene.secret(copy, { a: '1' }, copied);
      const { code, lines, textOf } = await scene.migrate(['--from', PROGRAM]);
      assert.equal(code, 3);
      for (const copy of copies) {
        assert.ok(lines.includes(`manual ${copy}`), lines.join('\n'));
        assert.match(textOf(`manual ${copy}`), /k8s-replicator\/replicate-to-namespaces on home\//);
      }
      await adoptsAfter(PROGRAM, source, namespaces, copies);
    });
  }

  it('Keyferry adopts ConfigMaps that kubernetes-replicator filled without permission, or that wait for a source, once the source allows it', async () => {
    const configMap = async (place: string, annotations: Map, data: Map = { a: '1' }): Promise<void> => {
      const [namespace, name] = place.split('/');
      await plane.api.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { namespace, name, annotations }, data });
    };
    await configMap('home/open', {});
    await configMap('team-a/open', { [`${PREFIX}replicate-from`]: 'home/open' });
    await configMap('team-a/waits', { [`${PREFIX}replicate-from`]: 'home/late' });
    const before = await scene.migrate(['--from', PROGRAM]);
    assert.equal(before.code, 3);
    assert.match(
      before.textOf('manual team-a/open'),
      /does not allow it.*name its namespace in k8s-replicator\/replication-allowed-namespaces on home\/open/,
    );
    assert.match(before.textOf('manual team-a/waits'), /waits for home\/late, which does not exist; when it exists/);
    await configMap('home/late', { [ALLOWED_NAMESPACES]: 'team-a' });
    await scene.annotate('home/open', { [ALLOWED_NAMESPACES]: 'team-a' }, 'configmaps');
    const { lines } = await scene.migrate(['--from', PROGRAM, '--apply']);
    for (const line of ['written team-a/open', 'written team-a/waits'])
      assert.ok(lines.includes(line), lines.join('\n'));
  });
});

failOnLeaks();
