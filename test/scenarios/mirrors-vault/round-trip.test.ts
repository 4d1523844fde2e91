/**
 * Any text in a Secret comes back from Vault byte for byte. Vault's audit log shows how many requests Keyferry needs
 * for it.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { dictionary, oneof, sample, string, stringMatching } from 'fast-check';

import type { Json } from '../../support/api.ts';
import { readJsonLines } from '../../support/json-lines.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { longIt } from '../../support/long.ts';
import { waitFor, waitForStable } from '../../support/wait-for.ts';
import { HOME, mirrorPath, sameData, secretPath } from '../mirrors/support.ts';
import { policy, VaultScene } from './support.ts';

const PEM = `-----BEGIN CERTIFICATE-----\n${'MIIBszCCAVmgAwIBAgIUe5Cq\n'.repeat(20)}-----END CERTIFICATE-----\n`;
const AWKWARD = {
  password: 'password',
  hex: 'deadbeef',
  base64: Buffer.from('looks like base64').toString('base64'),
  number: '007',
  boolean: 'true',
  null: 'null',
  json: '{"a": [1, "é"]}',
  empty: '',
  blank: ' \t\r\n',
  pem: PEM,
  emoji: '👩‍🚀🔑 — ünïcödé \u202e',
  nul: '\0a\0',
  'ca.crt_x-1': '"quotes" \\ <&>',
  large: 'x'.repeat(100 * 1024),
};
const KEY = stringMatching(/^[-._a-zA-Z0-9]{1,40}$/).filter((key) => key !== '.' && !key.startsWith('..'));
/** Any text that UTF-8 can encode. UTF-8 cannot encode lone surrogates, so these are left out. */
const TEXT = oneof(string({ unit: 'binary', maxLength: 200 }), string({ unit: 'grapheme', maxLength: 50 }));

interface AuditLine {
  readonly type: string;
  readonly request: { readonly operation: string; readonly path: string };
  readonly error?: string;
}

describe('a copy from Secret to Vault to Secret', () => {
  let scene: VaultScene;
  before(async () => {
    scene = await VaultScene.open({ auditLog: true });
    await scene.mirrors.namespaces('target');
    await scene.approle('writer', policy({ 'secret/*': ['create', 'read', 'update'] }));
    await scene.approle('reader', policy({ 'secret/*': ['read'] }));
    await scene.mirrors.operator();
  });
  after(() => scene.close());

  const block = (path: string, name: string): Json =>
    scene.block(path, '', { auth: { approle: { secretRef: { name } } } });
  const encoded = (values: Readonly<Record<string, string>>): Record<string, string> =>
    Object.fromEntries(Object.entries(values).map(([key, text]) => [key, Buffer.from(text).toString('base64')]));

  function audit(): AuditLine[] {
    const lines: readonly AuditLine[] = readJsonLines(scene.vault.auditLogPath);
    return lines.filter(({ type }) => type === 'response');
  }
  const count = (lines: readonly AuditLine[], operation: RegExp, path: RegExp): number =>
    lines.filter(({ request }) => operation.test(request.operation) && path.test(request.path)).length;

  async function there(name: string, path: string, spec: Json = {}): Promise<void> {
    await scene.toVault(`to-${name}`, { name }, block(path, 'writer'), spec);
    await scene.fromVault(`from-${name}`, block(path, 'reader'), ['target'], spec);
  }

  it('any text in a Secret is the same after a mirror copied it into Vault and another mirror copied it back', async () => {
    const { mirrors, vault } = scene;
    const samples = [AWKWARD, ...sample(dictionary(KEY, TEXT, { minKeys: 1, maxKeys: 20, noNullPrototype: true }), 8)];
    const create = async (values: Readonly<Record<string, string>>, i: number): Promise<void> => {
      const metadata = { name: `any-${i}`, namespace: HOME };
      await mirrors.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, data: encoded(values) });
      await there(`any-${i}`, `secret/data/any/${i}`);
    };
    await Promise.all(samples.map(create));
    for (const [i, values] of samples.entries()) {
      const wanted = encoded(values);
      await waitFor(async () => sameData((await mirrors.find('target', `from-any-${i}`))?.data ?? {}, wanted), {
        message: () => `sample ${i}: ${JSON.stringify(values).slice(0, 2000)}\n${mirrors.tail()}`,
      });
      const { data } = await vault.request('GET', `secret/data/any/${i}`);
      assert.deepEqual(data.data, values);
      assert.equal(data.metadata.version, 1);
    }
  });

  it('if mirrors into and from Vault choose keys, these keys are copied under their new names', async () => {
    const { mirrors } = scene;
    await mirrors.secret(HOME, 'chosen', { a: '1', b: '2', c: '3' });
    const vault = block('secret/data/chosen', 'writer');
    await mirrors.api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { name: 'to-chosen', namespace: HOME },
      spec: {
        source: { name: 'chosen' },
        destination: { type: 'vault', vault, keys: [{ from: 'a', to: 'key.a' }, { from: 'b' }] },
      },
    });
    await scene.holds('secret/data/chosen', { 'key.a': '1', b: '2' });
    await mirrors.change(HOME, 'chosen', { a: '4' });
    await mirrors.ready('to-chosen', 'KeyNotFound', /"b"/);
    await scene.holds('secret/data/chosen', { 'key.a': '1', b: '2' });
    // This entry cannot be copied as a whole: a Secret cannot have its key `not a/key`.
    await scene.put('secret/data/awkward', { 'not a/key': '1', b: '2' });
    await scene.fromVault('from-chosen', block('secret/data/awkward', 'reader'), ['target']);
    await mirrors.ready('from-chosen', 'InvalidKeys');
    const keys = [{ from: 'not a/key', to: 'key' }];
    await mirrors.api.patch(mirrorPath('from-chosen'), { spec: { destination: { name: 'picked', keys } } });
    const copy = await mirrors.copied('target', 'picked', { key: '1' });
    assert.equal(copy.type, 'Opaque');
    await scene.put('secret/data/awkward', { 'not a/key': '3' });
    await mirrors.copied('target', 'picked', { key: '3' });
    const lost = [{ from: 'gone' }];
    await mirrors.api.patch(mirrorPath('from-chosen'), { spec: { destination: { keys: lost } } });
    await mirrors.ready('from-chosen', 'KeyNotFound', /"gone"/);
    await mirrors.copied('target', 'picked', { key: '3' });
  });

  longIt(
    'copies into Vault and back cost one login for each identity and one version for each change; without a change they cost nothing',
    async (t) => {
      const { mirrors } = scene;
      const spec = { pollPeriodSeconds: 600 };
      const mirrorCount = 25;
      for (let i = 0; i < mirrorCount; i++) {
        await mirrors.secret(HOME, `cost-${i}`, { a: String(i) });
        await scene.toVault(`to-cost-${i}`, { name: `cost-${i}` }, block(`secret/data/cost/${i}`, 'writer'), spec);
        await scene.holds(`secret/data/cost/${i}`, { a: String(i) });
        await scene.fromVault(`from-cost-${i}`, block(`secret/data/cost/${i}`, 'reader'), ['target'], spec);
      }
      for (let i = 0; i < mirrorCount; i++) await mirrors.copied('target', `from-cost-${i}`, { a: String(i) });
      const fresh = audit();
      assert.equal(count(fresh, /update/, /^auth\/approle\/login$/), 2);
      assert.equal(count(fresh, /create|update/, /^secret\/data\/cost\//), mirrorCount);
      const reconciles = 20;
      for (let poke = 1; poke <= reconciles; poke++) {
        const touched = { metadata: { annotations: { poked: String(poke) } } };
        await Promise.all(
          Array.from({ length: mirrorCount }, async (_, i) => {
            await mirrors.api.patch(secretPath(HOME, `cost-${i}`), touched);
            await mirrors.api.patch(mirrorPath(`from-cost-${i}`), touched);
          }),
        );
      }
      await mirrors.change(HOME, 'cost-0', { a: 'last' });
      await scene.holds('secret/data/cost/0', { a: 'last' });
      const calls = async (): Promise<string> => await Promise.resolve(String(count(audit(), /./, /cost/)));
      await waitForStable(calls, 1500, 'silence without a change');
      const lines = audit().slice(fresh.length);
      const writes = count(lines, /create|update/, /^secret\/data\/cost\//);
      const reads = count(lines, /read/, /^secret\/data\/cost\//);
      t.diagnostic(`${2 * mirrorCount * reconciles} reconciles: ${writes} version for 1 change, ${reads} reads`);
      assert.equal(count(lines, /update/, /^auth\//), 0);
      assert.equal(writes, 1);
      assert.ok(reads <= mirrorCount * reconciles);
    },
  );
});

failOnLeaks();
