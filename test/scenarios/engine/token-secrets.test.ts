/**
 * Keyferry never writes a Secret that the control plane treats as a token, whatever users request. One type is the
 * token of a ServiceAccount: the control plane fills such a Secret with a real token. The other type is a bootstrap
 * token, with which nodes join the cluster. The CRD in these tests checks nothing.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { permitEverything } from '../mirrors/permit-everything.ts';
import { HOME, mirrorPath, secretPath } from '../mirrors/support.ts';
import { policy, VaultScene } from '../mirrors-vault/support.ts';
import { annotate } from '../replicator/support.ts';

const ACCOUNT = 'kubernetes.io/service-account.name';
/** The types of token Secrets, with the annotations that the API server requires for them. */
const TYPES: readonly (readonly [string, Json])[] = [
  ['kubernetes.io/service-account-token', { [ACCOUNT]: 'robot' }],
  ['bootstrap.kubernetes.io/token', {}],
];
const SETTLE_MS = 1000;

describe('Secrets that are tokens', () => {
  let scene: VaultScene;
  before(async () => {
    scene = await VaultScene.open({}, { controllerManager: true });
    const { mirrors } = scene;
    await permitEverything(mirrors.api);
    await mirrors.namespaces('target');
    for (const namespace of [HOME, 'target']) {
      await mirrors.api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'robot', namespace } });
    }
    await scene.tokenSecret('reader', policy({ 'secret/*': ['read'] }));
    await mirrors.operator({ args: ['--controllers=mirrors,replicator'] });
  });
  after(() => scene.close());

  const fromVault = async (name: string, secretType?: string): Promise<void> => {
    const destination = { namespaces: ['target'], secretType };
    await scene.fromVault(name, scene.block(`secret/data/${name}`, 'reader'), [], { destination });
  };
  /** Waits for the event RefusedType on an annotated Secret. */
  const reported = async (name: string, namespace = HOME): Promise<void> => {
    const isExpected = ({ involvedObject, reason }: Json): boolean =>
      involvedObject.name === name && reason === 'RefusedType';
    const path = `/api/v1/namespaces/${namespace}/events`;
    await waitFor(async () => (await scene.mirrors.api.list(path)).some(isExpected), {
      message: `a warning on ${name}`,
    });
  };

  for (const [index, [type, annotations]] of TYPES.entries()) {
    describe(type, () => {
      it(`a mirror makes no Secret of type ${type} from an entry in Vault`, async () => {
        const { mirrors } = scene;
        const name = `entry-${index}`;
        await scene.put(`secret/data/${name}`, { type, [ACCOUNT]: 'robot', annotations: JSON.stringify(annotations) });
        await fromVault(name, type);
        await mirrors.ready(name, 'InvalidSpec', /spec\.destination\.secretType: .*are not allowed/);
        await staysTrue(async () => (await mirrors.find('target', name)) === undefined, SETTLE_MS, 'no copy');
      });

      it(`if a mirror is changed to the type ${type}, its copy stays unchanged`, async () => {
        const { mirrors } = scene;
        const name = `later-${index}`;
        await scene.put(`secret/data/${name}`, { a: '1' });
        await fromVault(name);
        const { metadata } = await mirrors.copied('target', name, { a: '1' });
        await mirrors.api.patch(mirrorPath(name), { spec: { destination: { secretType: type } } });
        await mirrors.ready(name, 'InvalidSpec', /secretType/);
        const stays = async (): Promise<boolean> => (await mirrors.find('target', name))?.metadata.uid === metadata.uid;
        await staysTrue(stays, SETTLE_MS, 'the copy that is no token');
      });

      it(`if a source becomes ${type}, it is not copied, and the copy with the old type stays`, async () => {
        const { mirrors } = scene;
        const name = `secret-${index}`;
        await mirrors.secret(HOME, name, { a: '1' });
        await mirrors.mirror(name, ['target']);
        const { metadata } = await mirrors.copied('target', name, { a: '1' });
        await mirrors.api.delete(secretPath(HOME, name));
        await mirrors.ready(name, 'NoSecret');
        await mirrors.secret(HOME, name, { a: '2' }, { type, metadata: { annotations } });
        await mirrors.ready(name, 'SyncError', new RegExp(type.replaceAll('.', '\\.')));
        const copy = await mirrors.copied('target', name, { a: '1' });
        assert.deepEqual([copy.metadata.uid, copy.type], [metadata.uid, 'Opaque']);
      });

      it(`a Secret of type ${type} is not pushed, even without data, and no object can pull from it`, async () => {
        const { mirrors } = scene;
        const make = async (name: string, asked: Record<string, string>): Promise<void> => {
          const metadata = { annotations: { ...annotations, ...annotate(asked) } };
          await mirrors.secret(HOME, name, { a: '1' }, { type, metadata });
        };
        await make(`pushes-${index}`, { 'replicate-to': `target/pushed-${index}`, 'replication-allowed': 'true' });
        await reported(`pushes-${index}`);
        const shell = { 'replicate-from': 'target/elsewhere', 'replicate-to': `target/shell-${index}` };
        await make(`shells-${index}`, shell);
        await reported(`shells-${index}`);
        const asks = annotate({ 'replicate-from': `${HOME}/pushes-${index}` });
        await mirrors.secret('target', `pulls-${index}`, { own: 'x' }, { metadata: { annotations: asks } });
        await reported(`pulls-${index}`, 'target');
        const { data } = await mirrors.find('target', `pulls-${index}`);
        assert.deepEqual(Object.keys(data), ['own']);
        for (const name of ['pushed', 'shell']) {
          assert.equal(await mirrors.find('target', `${name}-${index}`), undefined, name);
        }
      });
    });
  }

  it('annotations and labels that bind a Secret to a ServiceAccount are not copied', async () => {
    const { mirrors } = scene;
    const annotations = { [ACCOUNT]: 'robot', 'kubernetes.io/service-account.uid': 'x', note: 'kept' };
    const labels = { 'kubernetes.io/service-account.name': 'robot' };
    const push = annotate({ 'replicate-to': 'target/marked-pushed' });
    await mirrors.secret(
      HOME,
      'marked',
      { a: '1' },
      { metadata: { annotations: { ...annotations, ...push }, labels } },
    );
    await mirrors.mirror('marked', ['target']);
    const copy = await mirrors.copied('target', 'marked', { a: '1' });
    assert.equal(copy.metadata.annotations.note, 'kept');
    const pushed = await waitFor(() => mirrors.find('target', 'marked-pushed'), { message: 'the pushed copy' });
    for (const { metadata } of [copy, pushed]) {
      const keys = Object.keys({ ...metadata.annotations, ...metadata.labels });
      assert.deepEqual(
        keys.filter((key) => key.startsWith('kubernetes.io/')),
        [],
      );
    }
  });

  it('none of the copies that these tests made has the type of a token Secret', async () => {
    const made = await scene.mirrors.api.list('/api/v1/namespaces/target/secrets');
    assert.ok(made.length > 0);
    assert.deepEqual(
      made.filter(({ type }) => TYPES.some(([forbidden]) => forbidden === type)).map(({ metadata }) => metadata.name),
      [],
    );
  });
});

failOnLeaks();
