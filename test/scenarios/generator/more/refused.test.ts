/**
 * Tests many ExternalSecrets that Vault refuses with 403: they delay no other namespace, and get their values soon
 * after the policy is mended.
 */
import { after, before, it } from 'node:test';

import { waitFor } from '../../../support/wait-for.ts';
import { within } from '../../../support/yardstick.ts';
import { GeneratorScene, HOME, RESULT } from '../support.ts';

const MANY = 300;
const OTHER = 'other';
const READ_ONLY = 'path "secret/data/app/*" { capabilities = ["read"] }';
const READ_AND_WRITE = 'path "secret/data/app/*" { capabilities = ["create", "read", "update"] }';

let scene: GeneratorScene;

before(async () => {
  scene = await GeneratorScene.open({ eso: false });
  await scene.api.createNamespaces([OTHER]);
  const token = await scene.limitedToken('refused', READ_ONLY);
  await scene.token(HOME, token);
  await scene.token(OTHER, token);
  await scene.store('other', {}, { namespace: OTHER });
  await scene.start();
});
after(() => scene?.close());

/** Counts the ExternalSecrets whose last result has this reason. */
async function count(reason: string): Promise<number> {
  const objects = await scene.api.list(`/apis/external-secrets.io/v1/namespaces/${HOME}/externalsecrets`);
  return objects.filter(({ metadata }) => metadata.annotations[RESULT]?.includes(`"${reason}"`)).length;
}

it(`if Vault refuses ${MANY} ExternalSecrets, other namespaces are not delayed, and all get values within 40 s after the policy is mended`, async () => {
  for (let from = 0; from < MANY; from += 20) {
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const name = `refused-${from + index}`;
        await scene.externalSecret(name, [{ key: `app/${name}`, property: 'a' }]);
        await scene.fail(name);
      }),
    );
  }
  await waitFor(async () => (await count('ErrorCreating')) === MANY, {
    message: () => `all to be refused\n${scene.tail()}`,
    timeoutMs: 300_000,
  });
  await scene.externalSecret('few', [{ key: 'app/few', property: 'a' }], { namespace: OTHER, store: 'other' });
  await scene.fail('few', OTHER);
  await scene.says('few', 'ErrorCreating', undefined, OTHER);
  await scene.vault.request('PUT', 'sys/policies/acl/refused', { policy: READ_AND_WRITE });
  await within(40_000, 'the values of all', async () => {
    await scene.says('few', 'Success', undefined, OTHER);
    await waitFor(async () => (await count('Success')) === MANY, { message: 'all values', timeoutMs: 150_000 });
  });
});
