/** While a Vault is killed, on standby or slow, copies stay as they are, and other mirrors are not delayed. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { rowsOf } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';
import { isOpenBao } from '../../servers/catalogue.ts';
import { type FaultProxy, startFaultProxy } from '../../servers/fault-proxy.ts';
import type { VaultCalls } from '../../servers/vault.ts';
import { HOME, mirrorPath } from '../mirrors/support.ts';
import { ALL, VaultScene } from './support.ts';

const MIRRORS = 10;

describe('faults of a Vault', () => {
  let scene: VaultScene;
  let operator: Keyferry;
  /** The proxy between Keyferry and Vault, which makes the faults. */
  let proxy: FaultProxy;
  let round = 0;

  before(async () => {
    scene = await VaultScene.open({ storage: 'file' });
    const { mirrors, vault } = scene;
    proxy = await startFaultProxy({ upstream: vault.addr });
    operator = await mirrors.operator();
    await mirrors.namespaces('target');
    await scene.approle('all', ALL);
    await mirrors.secret(HOME, 'written', { a: '0' });
    for (let i = 0; i < MIRRORS; i++) {
      await scene.put(`secret/data/from-${i}`, { a: '0' });
      await scene.fromVault(`from-${i}`, behind(`secret/data/from-${i}`), ['target']);
      await scene.toVault(`to-${i}`, { name: 'written' }, behind(`secret/data/to-${i}`));
    }
    await waitForCopies('0');
  });
  afterEach(() => proxy.clearRules());
  after(async () => {
    await scene.close();
    await proxy.stop();
  });

  const behind = (path: string, more: Json = {}): Json => ({
    addr: proxy.url,
    path,
    auth: { approle: { secretRef: { name: 'all' } } },
    ...more,
  });

  async function waitForCopies(text: string): Promise<void> {
    for (let i = 0; i < MIRRORS; i++) {
      await scene.mirrors.copied('target', `from-${i}`, { a: text });
      await scene.holds(`secret/data/to-${i}`, { a: text });
    }
    for (const name of ['from', 'to']) await scene.mirrors.ready(`${name}-0`, 'Synced');
  }

  /** Changes all sources, and waits until all copies have the change. */
  async function changeAll(): Promise<void> {
    const text = String(++round);
    await scene.mirrors.change(HOME, 'written', { a: text });
    for (let i = 0; i < MIRRORS; i++) await scene.put(`secret/data/from-${i}`, { a: text });
    await waitForCopies(text);
  }

  /**
   * Checks that during the fault the copies stay unchanged, the status has this message, and mirrors can be deleted.
   */
  async function assertUnchanged(message: RegExp, text = String(round)): Promise<void> {
    const { mirrors } = scene;
    await mirrors.ready('from-0', 'VaultError', message);
    await mirrors.copied('target', 'from-0', { a: text });
    await mirrors.change(HOME, 'written', { a: 'meanwhile' });
    await mirrors.ready('to-0', 'VaultError', message);
    await deletable();
  }

  async function deletable(): Promise<void> {
    const { mirrors } = scene;
    const [from, to] = [`gone-from-${++round}`, `gone-to-${round}`];
    await scene.fromVault(from, behind('secret/data/from-0'), ['target']);
    await scene.toVault(to, { name: 'written' }, behind(`secret/data/gone-${round}`));
    await within(5000, 'the deletion', async () => {
      await Promise.all([mirrors.api.delete(mirrorPath(from)), mirrors.api.delete(mirrorPath(to))]);
      await mirrors.gone(mirrorPath(from), mirrorPath(to));
    });
  }

  const logins = async (): Promise<number> => (await operator.metric('keyferry_vault_logins_total')) ?? 0;

  it('a killed Vault gets few requests; when it runs again, copying continues without another login', async () => {
    const { vault } = scene;
    await changeAll();
    assert.equal(await logins(), 1);
    proxy.reset();
    await vault.kill();
    const begin = performance.now();
    await assertUnchanged(/vault/, '1');
    const seconds = (performance.now() - begin) / 1000;
    assert.ok(proxy.counters.requests < 30 + 3 * seconds, `${proxy.counters.requests} requests in ${seconds} s`);
    await vault.start();
    await changeAll();
    assert.equal(await logins(), 1);
  });

  it('if Vault restarts and revokes its tokens, Keyferry logs in again exactly one time', async () => {
    const { vault } = scene;
    const before = await logins();
    const { data } = await vault.request('LIST', 'auth/token/accessors');
    await vault.restart();
    for (const accessor of data.keys) {
      const token = await vault.raw('POST', 'auth/token/lookup-accessor', { accessor });
      if (token.body.data?.policies?.includes('all') === true) {
        await vault.request('POST', 'auth/token/revoke-accessor', { accessor });
      }
    }
    await changeAll();
    assert.equal((await logins()) - before, 1);
  });

  for (const [status, body, words] of rowsOf([
    [429, { errors: ['too many requests'] }, /429|Vault requested fewer calls/],
    [473, { initialized: true, performance_standby: true }, /473/],
    [503, { errors: ['Vault is sealed'] }, /503.*sealed/],
  ] as const)) {
    it(`while Vault answers ${status}, copies stay as they are; after that, copying continues`, async () => {
      await changeAll();
      const text = String(round);
      proxy.rule({ fault: { kind: 'respond', status, body, headers: status === 429 ? { 'retry-after': '1' } : {} } });
      await assertUnchanged(words, text);
      proxy.clearRules();
      await changeAll();
    });
  }

  it('a Vault that takes 30 s to answer does not delay mirrors of other Vault servers', async () => {
    const { mirrors } = scene;
    await changeAll();
    proxy.rule({ fault: { kind: 'delay', ms: 30_000 } });
    await mirrors.change(HOME, 'written', { a: 'slow' });
    await within(4000, 'the work of the others', async () => {
      await scene.put('secret/data/direct', { a: 'direct' });
      const auth = { approle: { secretRef: { name: 'all' } } };
      await scene.fromVault('direct', scene.block('secret/data/direct', '', { auth }), ['target']);
      await mirrors.copied('target', 'direct', { a: 'direct' });
      await mirrors.secret(HOME, 'plain', { a: 'plain' });
      await scene.toVault('direct-to', { name: 'plain' }, scene.block('secret/data/direct-to', '', { auth }));
      await scene.holds('secret/data/direct-to', { a: 'plain' });
      await mirrors.mirror('plain', ['target']);
      await mirrors.copied('target', 'plain', { a: 'plain' });
      await deletable();
    });
    proxy.clearRules();
    proxy.cutAll();
    await changeAll();
  });

  it('mirrors whose database hangs delay no other mirror with the same login', async () => {
    const hang = proxy.rule({ match: { path: '/v1/mongodb/creds' }, fault: { kind: 'stall' } });
    await scene.vault.request('POST', 'sys/mounts/mongodb', { type: 'database' });
    for (let i = 0; i < MIRRORS; i++) await scene.fromVault(`hanging-${i}`, behind(`mongodb/creds/r${i}`), ['target']);
    await waitFor(() => hang.hits > 0, { message: 'a call that hangs' });
    await within(10_000, 'the changes', changeAll);
    hang.clear();
    proxy.cutAll();
  });

  for (const [title, own, namespace] of [
    ['that of the entry', undefined, 'team/a'],
    // A token of a namespace of OpenBao is valid in the namespaces below it.
    ['one of its own', 'group', 'group/b'],
  ] as const) {
    it(`a login to Vault has a namespace: ${title}`, async () => {
      proxy.reset();
      const { mirrors, vault } = scene;
      // Vault without a licence has no namespaces and ignores the header. OpenBao refuses a namespace that does not
      // exist.
      const tenant = isOpenBao() ? await vault.createNamespace(namespace) : vault;
      const group: VaultCalls = {
        raw: (method, path, ...rest) => vault.raw(method, isOpenBao() ? `group/${path}` : path, ...rest),
        request: (method, path, ...rest) => vault.request(method, isOpenBao() ? `group/${path}` : path, ...rest),
      };
      const name = namespace.replace('/', '-');
      await scene.approle(name, ALL, {}, own === undefined ? tenant : group);
      await scene.put(`secret/data/${name}`, { a: 'theirs' }, tenant);
      const auth = { approle: { secretRef: { name } }, ...(own === undefined ? {} : { namespace: own }) };
      await scene.fromVault(name, behind(`secret/data/${name}`, { namespace, auth }), ['target']);
      await mirrors.copied('target', name, { a: 'theirs' });
      const sent = new Set(proxy.requests.map(({ url, vaultNamespace }) => `${vaultNamespace} ${url}`));
      for (const call of [`${own ?? namespace} /v1/auth/approle/login`, `${namespace} /v1/secret/data/${name}`])
        assert.ok(sent.has(call), [...sent].join('\n'));
    });
  }
});

failOnLeaks();
