/**
 * Tests that the Vault policy in docs/generator.md suffices for the generator, and gives no access to other entries.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, it } from 'node:test';

import { codeBlocks } from '../../support/markdown.ts';
import { GeneratorScene, HOME } from './support.ts';

let scene: GeneratorScene;

before(async () => {
  scene = await GeneratorScene.open({ eso: false });
  await scene.start();
});
after(() => scene?.close());

it('the Vault policy in docs/generator.md permits the generator to create an entry and to add a value to it, and nothing else', async () => {
  const page = readFileSync(new URL('../../../docs/generator.md', import.meta.url), 'utf8');
  const policy = codeBlocks(page).find(({ language }) => language === 'hcl')?.text;
  assert.ok(policy !== undefined);
  await scene.token(HOME, await scene.limitedToken('page', policy));
  await scene.externalSecret('inside', [{ key: 'secret/dev-1/inside', property: 'a' }]);
  await scene.fail('inside');
  await scene.says('inside', 'Success');
  await scene.externalSecret('more', [{ key: 'secret/dev-1/inside', property: 'b' }]);
  await scene.fail('more');
  await scene.says('more', 'Success');
  assert.deepEqual(Object.keys((await scene.entry('secret/data/dev-1/inside')).data).toSorted(), ['a', 'b']);
  await scene.externalSecret('outside', [{ key: 'secret/dev-2/outside', property: 'a' }]);
  await scene.fail('outside');
  await scene.says('outside', 'ErrorCreating');
  assert.equal(await scene.entry('secret/data/dev-2/outside'), undefined);
});
