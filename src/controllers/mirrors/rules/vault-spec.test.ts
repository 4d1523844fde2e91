import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import type { VaultBlock } from '../api.ts';
import { effectiveSpec } from './spec.ts';
import { type BlockContext, vaultLocation } from './vault-spec.ts';

const CONTEXT: BlockContext = {
  field: 'spec.source.vault',
  home: 'default',
  secretType: undefined,
  crossNamespaceAuth: false,
  vaultAddresses: undefined,
  vaultDefaults: {},
};

describe('a vault block where no addresses are checked, as in `keyferry plan`', () => {
  const good: VaultBlock = {
    addr: 'https://vault.example.com',
    path: 'secret/data/a',
    auth: { token: { secretRef: { name: 'token' } } },
  };
  const problemsOf = (source: VaultBlock, destination: VaultBlock): readonly string[] => {
    const mirror = {
      metadata: {
        name: 'm',
        namespace: 'default',
        uid: 'u',
        resourceVersion: '1',
        creationTimestamp: '2026-01-01T00:00:00Z',
      },
      spec: {
        source: { name: 'a', type: 'vault', vault: source },
        destination: { type: 'vault', vault: destination },
      },
    } as const;
    return effectiveSpec(mirror, new PatternCache('full')).problems;
  };
  const other = { ...good, path: 'secret/data/b' };

  it('the Vault namespace of the login goes with each method, and is not that of the entry', () => {
    for (const auth of [
      { approle: { secretRef: { name: 'a' } } },
      { token: { secretRef: { name: 'a' } } },
      { kubernetes: { role: 'r', serviceAccountRef: { name: 'a', audiences: ['vault'] } } },
    ]) {
      const at = (namespace: object) => vaultLocation({ ...good, auth: { ...auth, ...namespace } }, CONTEXT, []);
      assert.equal(at({ namespace: 'team' })?.auth.loginNamespace, 'team');
      assert.equal(at({ namespace: 'team' })?.server.namespace, undefined);
      for (const none of [{}, { namespace: '' }]) assert.equal('loginNamespace' in (at(none)?.auth ?? {}), false);
    }
  });

  it('a valid vault block has no problem if no list of Vault addresses is configured, except the entry of the source as the destination', () => {
    assert.deepEqual(problemsOf(good, other), []);
    for (const path of ['secret/data/a', '/secret/a'])
      assert.deepEqual(problemsOf(good, { ...good, path, encoding: 'base64' }), [
        'spec.destination.vault.path: must not be the same entry as spec.source.vault',
      ]);
  });

  it('the message about a mistake in a vault block names the field', () => {
    assert.deepEqual(problemsOf({}, { ...other, auth: { approle: {} } }), [
      'spec.source.vault.addr: must be specified',
      'spec.source.vault.path: must be specified',
      'spec.source.vault.auth: must specify one of approle, token or kubernetes',
      'spec.destination.vault.auth.approle.secretRef.name: must be specified',
    ]);
    assert.match(
      problemsOf({ ...good, path: 'secret/../sys/seal' }, other).join('\n'),
      /^spec\.source\.vault\.path: .*\.\./,
    );
    assert.deepEqual(problemsOf({ ...good, addr: 'vault.example.com' }, other), [
      'spec.source.vault.addr: must be a URL that begins with http:// or https://, not "vault.example.com"',
    ]);
    assert.deepEqual(problemsOf(good, { ...other, namespace: 'a b' }), [
      'spec.destination.vault.namespace: "a b" has a character that is not allowed in a header',
    ]);
    assert.deepEqual(problemsOf(good, { ...other, caBundle: 'none' }), [
      'spec.destination.vault.caBundle: holds no PEM certificate',
    ]);
  });
});
