/**
 * Tests the condition `Created`, which the Bash controller defined, with the real External Secrets Operator (ESO). The
 * CRD here allows conditions of any type, as the CRD of ESO before 0.20.2 does.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { GeneratorScene, HOME, RESULT } from './support.ts';

const FAILING = { template: { type: 'kubernetes.io/tls' } };
/** The tests compare these fields of a condition. The time is left out, because it differs in each run. */
const FIELDS = ['type', 'status', 'reason', 'message'] as const;
const SUCCESS = ['Created', 'True', 'Success', 'A random value was put into Vault.'];

let scene: GeneratorScene;

before(async () => {
  scene = await GeneratorScene.open({ crds: withoutConditionTypes });
  await scene.start();
});
after(() => scene?.close());

/** Changes the CRD of ESO so that it allows conditions of any type. */
function withoutConditionTypes(yaml: string): string {
  const changed = yaml.replace(/\n +enum:\n +- Ready\n +- Deleted\n/, '\n');
  assert.notEqual(changed, yaml);
  return changed;
}

async function conditions(name: string, type: string): Promise<string[][]> {
  const { status } = await scene.api.get(scene.path(name));
  const all: Json[] = status?.conditions ?? [];
  return all.filter((one) => one.type === type).map((one) => FIELDS.map((field) => one[field]));
}

/** Waits until the ExternalSecret has exactly one condition `Created`, and this condition has the expected fields. */
async function created(name: string, expected: readonly string[]): Promise<void> {
  let last: unknown;
  await waitFor(
    async () => {
      last = await conditions(name, 'Created');
      return JSON.stringify(last) === JSON.stringify([expected]);
    },
    // ESO may try again soon, and Keyferry then replaces the condition.
    { intervalMs: 20, message: () => `${expected.join(' ')} of ${name}, not ${JSON.stringify(last)}\n${scene.tail()}` },
  );
}

/** Waits until the log has this text. Keyferry may log it only after it has written the condition. */
async function logged(text: string): Promise<void> {
  await waitFor(() => scene.operator.output.includes(text), { message: () => `${text} in the log\n${scene.tail()}` });
}

/** Creates an ExternalSecret and waits for its value. By then the generator has handled all earlier events. */
async function marker(name: string): Promise<void> {
  await scene.externalSecret(name, [{ key: `app/${name}`, property: 'password' }]);
  await scene.synced(name);
}

describe('the condition Created', () => {
  it('after the generator has made a value, the condition Created is Success, and the conditions of ESO and other clients are unchanged', async () => {
    await scene.externalSecret('conditions', [{ key: 'app/conditions', property: 'password' }], { annotations: {} });
    await waitFor(async () => (await scene.condition('conditions'))?.status === 'False', { message: 'ESO to fail' });
    const path = scene.path('conditions');
    const foreign = {
      type: 'Audited',
      status: 'Unknown',
      reason: 'Later',
      message: 'x',
      observed: 'not in the schema',
    };
    const { status } = await scene.api.get(path);
    await scene.api.patch(`${path}/status`, { status: { conditions: [foreign, ...status.conditions] } });
    const stored = await scene.condition('conditions', 'Audited');
    await scene.api.patch(path, { metadata: { annotations: { create: 'true' } } });
    await scene.synced('conditions');
    await created('conditions', SUCCESS);
    assert.deepEqual(await scene.condition('conditions', 'Audited'), stored);
    assert.deepEqual(await conditions('conditions', 'Ready'), [['Ready', 'True', 'SecretSynced', 'secret synced']]);
  });

  it('while the annotation create is not "true", the condition Created has the reason ErrorAnnotation', async () => {
    await scene.externalSecret('annotated', [{ key: 'app/annotated', property: 'password' }], {
      annotations: { create: 'yes' },
    });
    const message = "The only accepted value for the annotation 'create' is 'true'.";
    await created('annotated', ['Created', 'False', 'ErrorAnnotation', message]);
    await logged("annotated: the only valid value for the annotation 'create' is 'true'.");
    await scene.api.patch(scene.path('annotated'), { metadata: { annotations: { create: 'true' } } });
    await created('annotated', SUCCESS);
  });

  it("if Vault refuses a value, the condition Created is ErrorCreating with Vault's message; when another client adds the value, it becomes Exists", async () => {
    const token = await scene.limitedToken('reader', 'path "secret/data/*" { capabilities = ["read"] }');
    await scene.token(HOME, token, 'reader');
    await scene.store('reader', { auth: { tokenSecretRef: { name: 'reader', key: 'vault-token' } } });
    await scene.externalSecret('refused', [{ key: 'app/refused', property: 'password' }], { store: 'reader' });
    await scene.says('refused', 'ErrorCreating', /permission denied/);
    const { message } = await scene.condition('refused', 'Created');
    assert.match(message, /^While putting the random value: .*permission denied/);
    assert.equal(await scene.entry('secret/data/app/refused'), undefined);
    await scene.vault.request('POST', 'secret/data/app/refused', { data: { password: 'by hand' } });
    assert.deepEqual(await scene.synced('refused'), { 'key-0': 'by hand' });
    // Either ESO or Keyferry may find the value first.
    await scene.says('refused', 'Exists');
    assert.equal((await scene.condition('refused', 'Created')).status, 'True');
  });

  it('if ESO reads a value that Keyferry did not make, the condition Created gets the reason Exists', async () => {
    await scene.externalSecret('found', [{ key: 'app/found', property: 'password' }], {
      annotations: { create: 'no' },
    });
    await scene.says('found', 'ErrorAnnotation');
    await scene.vault.request('POST', 'secret/data/app/found', { data: { password: 'by hand' } });
    await scene.api.patch(scene.path('found'), { metadata: { annotations: { 'force-sync': 'now' } } });
    assert.deepEqual(await scene.synced('found'), { 'key-0': 'by hand' });
    await created('found', ['Created', 'True', 'Exists', 'The external-secrets operator has found the secret.']);
    await logged("found: turning condition 'Created' from False to True");
  });

  it('after a Vault entry is deleted, the condition Created has the reason Recreating until the generator has made a new value', async () => {
    await scene.externalSecret('deleted', [{ key: 'app/deleted', property: 'password' }]);
    await created('deleted', SUCCESS);
    // The annotation comes after the condition. Only with it, Keyferry knows that the value was there.
    const isRecorded = async (): Promise<boolean> =>
      RESULT in (await scene.api.get(scene.path('deleted'))).metadata.annotations;
    await waitFor(isRecorded, { message: 'the result in the annotation' });
    const { 'key-0': old } = await scene.synced('deleted');
    const seen: string[] = [];
    const watch = await scene.api.watch(scene.path('').slice(0, -1), ({ object }) => {
      if (object.metadata.name !== 'deleted') return;
      const reason = object.status?.conditions?.find(({ type }: Json) => type === 'Created')?.reason;
      if (reason !== undefined && reason !== seen.at(-1)) seen.push(reason);
    });
    try {
      await scene.vault.request('DELETE', 'secret/metadata/app/deleted');
      await waitFor(async () => ![undefined, old].includes((await scene.synced('deleted'))['key-0']), {
        message: () => `a new value\n${scene.tail()}`,
      });
      await waitFor(() => seen.includes('Recreating') && seen.at(-1) === 'Success', {
        message: () => `Success, not ${seen.join()}`,
      });
    } finally {
      await watch.stop();
    }
    assert.deepEqual(
      seen.filter((reason) => reason !== 'Success'),
      ['Recreating'],
    );
    assert.equal((await scene.entry('secret/data/app/deleted')).metadata.version, 1);
  });
});

describe('mounts and stores for which values are made', () => {
  it('in a KV 1 mount, the generator makes values and keeps the other properties of the entry', async () => {
    await scene.vault.request('POST', 'sys/mounts/kv1', { type: 'kv', options: { version: '1' } });
    await scene.store('kv1', { path: 'kv1', version: 'v1' });
    await scene.vault.request('POST', 'kv1/app/one', { other: 'x' });
    const items = ['a', 'b'].map((property) => ({ key: 'app/one', property }));
    await scene.externalSecret('kv1', [...items, { key: 'kv1/app/two', property: 'c' }], { store: 'kv1' });
    const { 'key-0': a, 'key-1': b, 'key-2': c } = await scene.synced('kv1');
    assert.deepEqual((await scene.vault.request('GET', 'kv1/app/one')).data, { other: 'x', a, b });
    assert.deepEqual((await scene.vault.request('GET', 'kv1/app/two')).data, { c });
    await created('kv1', SUCCESS);
  });
});

describe('a Vault that does not answer', () => {
  it('while Vault is sealed, an ExternalSecret gets an error; after the unseal, it gets its value', async () => {
    await scene.vault.seal();
    await scene.externalSecret('sealed', [{ key: 'app/sealed', property: 'password' }]);
    await scene.says('sealed', 'ErrorCreating', /[Ss]ealed/);
    await scene.vault.unseal();
    await scene.says('sealed', 'Success');
    await scene.synced('sealed');
    assert.equal((await scene.entry('secret/data/app/sealed')).metadata.version, 1);
  });
});

describe('a restarted generator', () => {
  it('after a restart, the generator leaves finished ExternalSecrets unchanged, even one on which ESO still fails, and makes values for new ones', async () => {
    await scene.externalSecret('stuck', [{ key: 'app/stuck', property: 'password' }], {
      spec: { target: { name: 'stuck', ...FAILING } },
    });
    await created('stuck', SUCCESS);
    // The generator's last write for an ExternalSecret is the annotation with the result.
    await scene.says('stuck', 'Success');
    await scene.operator.stop();
    const { [RESULT]: text } = (await scene.api.get(scene.path('stuck'))).metadata.annotations;
    await scene.externalSecret('meanwhile', [{ key: 'app/meanwhile', property: 'password' }]);
    await scene.start({ args: ['--all'] });
    await scene.synced('meanwhile');
    await marker('stuck-marker');
    const { metadata } = await scene.api.get(scene.path('stuck'));
    assert.equal(metadata.annotations[RESULT], text);
    assert.equal((await scene.entry('secret/data/app/stuck')).metadata.version, 1);
    await created('stuck', SUCCESS);
  });

  it('with --all, the generator makes values for every failing ExternalSecret, except one with the annotation create: "false"', async () => {
    await scene.externalSecret('not-me', [{ key: 'app/not-me', property: 'password' }], {
      annotations: { create: 'false' },
    });
    await scene.externalSecret('me-too', [{ key: 'app/me-too', property: 'password' }], { annotations: {} });
    await scene.synced('me-too');
    await created('me-too', SUCCESS);
    await waitFor(async () => (await scene.condition('not-me'))?.status === 'False', { message: 'ESO to fail' });
    await marker('all-marker');
    assert.equal(await scene.entry('secret/data/app/not-me'), undefined);
    assert.equal(await scene.result('not-me'), undefined);
  });
});
