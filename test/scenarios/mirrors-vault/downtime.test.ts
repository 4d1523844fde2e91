/**
 * Keyferry restarts, or Keyferry or Vault is down for some time: a restart writes nothing, and no finalizer blocks the
 * deletion of a namespace.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';

import { readJsonLines } from '../../support/json-lines.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { failOnLeaks } from '../../support/leaks.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { FINALIZER, HOME, mirrorPath, secretPath } from '../mirrors/support.ts';
import { annotate } from '../replicator/support.ts';
import { ALL, VaultScene } from './support.ts';

const ARGS = ['--controllers=mirrors,replicator'];
const QUIET_MS = 1500;
/** Verbs of the audit log that write nothing. */
const READS = new Set(['get', 'list', 'watch']);

describe('while Keyferry or Vault is down', () => {
  let scene: VaultScene;
  let operator: Keyferry;
  before(async () => {
    scene = await VaultScene.open({ storage: 'file', auditLog: true }, { audit: true, controllerManager: true });
    await scene.tokenSecret('all', ALL);
    operator = await scene.mirrors.operator({ args: ARGS });
  });
  after(() => scene.close());

  const clusterWrites = (): string[] =>
    readJsonLines(scene.mirrors.plane.auditLogPath)
      .filter(({ userAgent, verb }) => /keyferry/i.test(userAgent) && !READS.has(verb))
      .map(({ verb, requestURI }) => `${verb} ${requestURI}`);
  /** Paths of entries in `secret/` on which any client did an operation of this kind, by Vault's audit log. */
  const vaultCalls = (operation: RegExp): string[] =>
    readJsonLines(scene.vault.auditLogPath)
      .filter(({ type, request }) => type === 'request' && operation.test(request.operation))
      .map(({ request }): string => request.path)
      .filter((path) => path.startsWith('secret/'));
  const deleteAndWait = async (path: string): Promise<void> => {
    await waitFor(async () => (await scene.mirrors.api.find(path)) === undefined, {
      message: () => `${path} to go; ${scene.mirrors.tail()}`,
    });
  };

  /**
   * Creates the rules of a tenant and waits until all copies exist: mirrors to namespaces, from Vault and into Vault,
   * and an annotated Secret with a push and a pull.
   */
  async function tenant(name: string): Promise<void> {
    const { mirrors } = scene;
    const target = `${name}-target`;
    await mirrors.namespaces(name, target);
    const { data } = await mirrors.find(HOME, 'all');
    await mirrors.secret(name, 'all', {}, { data });
    await scene.put(`secret/data/${name}`, { a: '1' });
    const vault = scene.block(`secret/data/${name}`, 'all');
    const out = scene.block(`secret/data/${name}-out`, 'all');
    const poll = { pollPeriodSeconds: 1 };
    await mirrors.secret(name, 'plain', { a: '1' });
    await mirrors.mirror('plain', [target], {}, name);
    await mirrors.mirror('from', [target], { ...poll, source: { type: 'vault', vault } }, name);
    await mirrors.api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { name: 'to', namespace: name },
      spec: { ...poll, source: { name: 'plain' }, destination: { type: 'vault', vault: out } },
    });
    const asked = { 'replicate-to': `${target}/pushed`, 'replication-allowed': 'true' };
    await mirrors.secret(name, 'pushes', { a: '1' }, { metadata: { annotations: annotate(asked) } });
    const pulls = annotate({ 'replicate-from': `${name}/pushes` });
    await mirrors.secret(target, 'pulled', {}, { metadata: { annotations: pulls } });
    for (const mirror of ['plain', 'from', 'to']) await mirrors.ready(mirror, 'Synced', /(?:)/, name);
    await scene.holds(`secret/data/${name}-out`, { a: '1' });
    for (const copy of ['pushed', 'pulled']) {
      await waitFor(async () => (await mirrors.find(target, copy))?.data?.a === mirrors.value('1'), { message: copy });
    }
  }

  it('if all copies are up to date, a restart writes nothing to the cluster or to Vault', async () => {
    const { mirrors } = scene;
    await tenant('steady');
    for (const end of ['stop', 'kill9', 'stop'] as const) {
      await operator[end]();
      const before = [clusterWrites().length, vaultCalls(/create|update|delete/).length];
      const reads = vaultCalls(/read/).length;
      operator = await mirrors.operator({ args: ARGS });
      // Six reads: after this start, both mirrors with Vault have polled their entries more than once.
      await waitFor(() => vaultCalls(/read/).length >= reads + 6, { message: 'Vault to be asked' });
      const quiet = (): boolean =>
        clusterWrites().length === before[0] && vaultCalls(/create|update|delete/).length === before[1];
      await staysTrue(quiet, QUIET_MS, `no write after ${end}: ${clusterWrites().slice(before[0]).join(', ')}`);
    }
    assert.equal((await scene.entry('secret/data/steady-out')).metadata.version, 1);
  });

  it('Keyferry puts its finalizer on SecretMirrors only, not on Secrets, ConfigMaps or namespaces', async () => {
    const { api } = scene.mirrors;
    for (const path of ['/api/v1/secrets', '/api/v1/configmaps', '/api/v1/namespaces']) {
      for (const { metadata } of await api.list(path)) assert.equal(metadata.finalizers, undefined, metadata.name);
    }
    const mirrors = await api.list('/apis/mirrors.kts.studio/v1alpha2/secretmirrors');
    assert.ok(mirrors.length >= 3);
    for (const { metadata } of mirrors) assert.deepEqual(metadata.finalizers, [FINALIZER]);
  });

  it('while Keyferry is down, namespaces with annotated Secrets can be deleted; namespaces with mirrors are deleted once it runs, even without Vault', async () => {
    const { mirrors, vault } = scene;
    await tenant('left');
    await mirrors.namespaces('pulls');
    await mirrors.secret(
      'pulls',
      'pulled',
      {},
      {
        metadata: { annotations: annotate({ 'replicate-from': 'steady/pushes' }) },
      },
    );
    await operator.kill9();
    await vault.halt();
    for (const namespace of ['left', 'left-target', 'pulls'])
      await mirrors.api.delete(`/api/v1/namespaces/${namespace}`);
    await Promise.all([deleteAndWait('/api/v1/namespaces/left-target'), deleteAndWait('/api/v1/namespaces/pulls')]);
    const mirror = await mirrors.api.get(mirrorPath('from', 'left'));
    assert.notEqual(mirror.metadata.deletionTimestamp, undefined);
    operator = await mirrors.operator({ args: ARGS });
    await deleteAndWait('/api/v1/namespaces/left');
  });

  it('while Vault is down, a namespace with mirrors from and to Vault can be deleted, together with its copies in other namespaces', async () => {
    const { mirrors } = scene;
    await waitFor(async () => (await mirrors.status('from', 'steady')).mirrorStatus === 'Error', {
      message: 'it to be known that Vault is down',
    });
    await mirrors.api.delete('/api/v1/namespaces/steady');
    await deleteAndWait('/api/v1/namespaces/steady');
    for (const copy of ['plain', 'from', 'pushed']) await deleteAndWait(secretPath('steady-target', copy));
  });

  it('after Keyferry was uninstalled, a mirror can be deleted by the command in docs/operations.md', async () => {
    const { mirrors } = scene;
    await mirrors.namespaces('orphaned', 'orphaned-target');
    await mirrors.secret('orphaned', 'last', { a: '1' });
    await mirrors.mirror('last', ['orphaned-target'], {}, 'orphaned');
    await mirrors.copied('orphaned-target', 'last', { a: '1' });
    await operator.stop();
    await mirrors.api.delete('/api/v1/namespaces/orphaned');
    const page = readFileSync(new URL('../../../docs/operations.md', import.meta.url), 'utf8');
    const patch = /kubectl patch secretmirror NAME -n NAMESPACE --type merge -p '([^']+)'/.exec(page)?.[1] ?? '';
    await mirrors.api.patch(mirrorPath('last', 'orphaned'), JSON.parse(patch));
    await deleteAndWait('/api/v1/namespaces/orphaned');
    assert.ok(await mirrors.find('orphaned-target', 'last'), 'no operator removed it');
    operator = await mirrors.operator({ args: ARGS });
    await deleteAndWait(secretPath('orphaned-target', 'last'));
  });
});

failOnLeaks();
