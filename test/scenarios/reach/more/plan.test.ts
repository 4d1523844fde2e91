/** `keyferry plan` of a Namespace shows every copy that its labels and its consent delete, and the operator then does the same. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { stringify } from 'yaml';

import { planSchema } from '../../../../scripts/reports/schemas.ts';
import type { Json } from '../../../support/api.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { namespace } from '../../cli/objects.ts';
import { runProgram } from '../../cli/program.ts';
import { MirrorScene, secretPath } from '../../mirrors/support.ts';

const LIMIT = '--source-namespaces=selector:tenant=a';
const VALUES = { password: 'x' };
const CONSENT = 'keyferry.dev/accept-from';
const TENANT = { labels: { tenant: 'a' } };
const SHOP = { labels: { tenant: 'a', tier: 'prod' }, annotations: { [CONSENT]: 'apps' } };

describe('plan of a Namespace', () => {
  let scene: MirrorScene;
  /** All copies: by the selector of a mirror, by the name in a mirror, and pushed by an annotation. */
  const copies = ['other/named', 'shop/chosen', 'shop/named', 'shop/pushed'];

  const pathOf = (copy: string): string => {
    const [where = '', name = ''] = copy.split('/');
    return secretPath(where, name);
  };
  const found = async (copy: string): Promise<Json> => await scene.api.find(pathOf(copy));
  const change = async (name: string, metadata: object): Promise<unknown> =>
    await scene.api.patch(`/api/v1/namespaces/${name}`, { metadata }, 'merge');
  const copied = async (): Promise<void> => {
    for (const copy of copies) await waitFor(async () => (await found(copy)) !== undefined, { message: copy });
  };

  before(async () => {
    scene = await MirrorScene.open({ controllerManager: false });
    await scene.namespaces('apps', 'shop', 'other');
    await change('apps', TENANT);
    await change('shop', SHOP);
    for (const name of ['chosen', 'named']) await scene.secret('apps', name, VALUES);
    const annotations = { 'k8s-replicator/replicate-to': 'shop/pushed' };
    await scene.secret('apps', 'pushed', VALUES, { metadata: { annotations } });
    const namespaceSelector = { matchLabels: { tier: 'prod' } };
    await scene.mirror('chosen', [], { destination: { namespaceSelector } }, 'apps');
    await scene.mirror('named', ['shop', 'other'], {}, 'apps');
    await scene.operator({ args: [LIMIT] });
    await copied();
  });
  after(() => scene.close());

  const cases: readonly (readonly [what: string, name: string, metadata: object, lost: readonly string[]])[] = [
    ['a label that a mirror selects by changes', 'shop', { labels: { tier: 'test' } }, ['shop/chosen']],
    ['the namespace accepts others', 'shop', { annotations: { [CONSENT]: 'x' } }, copies.slice(1)],
    ['a label that a limit selects by changes', 'apps', { labels: { tenant: 'b' } }, copies],
    ['nothing of this changes', 'shop', { labels: { color: 'blue' } }, []],
  ];
  it('plan says where a mistake in a consent is, and plans objects without a namespace for that of -n', async () => {
    const input = [
      stringify({ ...namespace('other'), metadata: { name: 'other', annotations: { [CONSENT]: '(' } } }),
      stringify({ ...namespace('shop'), metadata: { name: 'shop', annotations: { [CONSENT]: 'app*' } } }),
      stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'one' }, data: { a: '1' } }),
    ].join('---\n');
    const args = ['plan', '-', '-n', 'nowhere', LIMIT, '-o', 'json', '--kubeconfig', scene.plane.kubeconfigPath];
    const { stdout, stderr } = await runProgram(args, input);
    const { targets, notes, problems } = planSchema.parse(JSON.parse(stdout || `{"stderr":${JSON.stringify(stderr)}}`));
    const said = JSON.stringify([targets, notes]);
    for (const name of ['other', 'shop'])
      assert.match(
        said,
        new RegExp(`${name} do(es)? not accept copies from namespace apps \\(a mistake in annotation`),
      );
    assert.match(
      problems.find(({ rule }) => rule === 'ConfigMap nowhere/one')?.problem ?? '',
      /^namespace nowhere does not exist$/,
    );
  });

  for (const [what, name, metadata, lost] of cases) {
    it(`if ${what}, plan lists exactly the copies that the operator then deletes`, async () => {
      const uids = await Promise.all(copies.map(async (copy) => (await found(copy))?.metadata.uid as unknown));
      const manifest = namespace(name);
      const input = stringify({ ...manifest, metadata: { ...manifest.metadata, ...metadata } });
      const args = ['plan', '-', LIMIT, '-o', 'json', '--kubeconfig', scene.plane.kubeconfigPath];
      const { code, stdout, stderr } = await runProgram(args, input);
      assert.equal(code, lost.length > 0 ? 3 : 0, `${stdout}\n${stderr}`);
      const { targets } = planSchema.parse(JSON.parse(stdout));
      const shown = targets.map((one) => [`${one.namespace}/${one.name}`, one.action, one.lost]);
      assert.deepEqual(
        shown.toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
        lost.map((copy) => [copy, 'delete', true]),
      );
      await change(name, metadata);
      await scene.gone(...lost.map(pathOf));
      for (const [index, copy] of copies.entries()) {
        if (!lost.includes(copy)) assert.equal((await found(copy))?.metadata.uid, uids[index], copy);
      }
      await change('apps', TENANT);
      await change('shop', SHOP);
      await copied();
    });
  }
});
