import assert from 'node:assert/strict';
import { it } from 'node:test';

import { type Fault, faultOf } from './fault.ts';

/** Reason and message as users see them. */
const CASES: readonly (readonly [Fault, string, string])[] = [
  ['user', 'NoSecret', 'secret default/a not found'],
  ['user', 'NoConfigMap', 'configmap default/a not found'],
  ['user', 'InvalidSpec', 'spec.destination: must be specified'],
  ['user', 'Conflict', 'the target belongs to another owner'],
  ['user', 'VaultAuthMissing', 'secret default/approle for vault approle not found'],
  ['user', 'VaultError', 'Error reading from vault: vault http://v: GET secret/data/a: permission denied'],
  ['user', 'VaultError', 'Error reading from vault: vault http://v: GET no/a: no handler for route "no/a"'],
  ['user', 'Forbidden', 'secrets "a" is forbidden: exceeded quota: q, requested: secrets=1'],
  ['user', 'Forbidden', 'admission webhook "w" denied the request: no'],
  ['user', 'NamespaceNotFound', 'namespace b does not exist'],
  ['user', 'SyncFailed', 'failed to create Secret: Secret "a" is invalid: type: Required value'],
  ['user', 'ErrorCreating', 'secret default/approle for vault approle not found'],
  ['operator', 'Forbidden', 'secrets "a" is forbidden: User "keyferry" cannot patch resource "secrets"'],
  ['operator', 'VaultAuthMissing', 'neither $VAULT_TOKEN nor ~/.vault-token has a token'],
  ['operator', 'VaultError', 'Error reading from vault: vault http://v: GET secret/data/a: connection refused'],
  ['operator', 'VaultError', 'Error syncing to vault: vault http://v: Vault is sealed'],
  ['operator', 'ErrorCreating', 'vault http://v: connection refused'],
  ['operator', 'ConnectionError', 'GET /api/v1/secrets: connect ECONNREFUSED'],
  ['operator', 'ClusterUnreachable', 'the management cluster does not answer'],
  ['operator', 'NamespaceNotFound', 'the management cluster: namespaces "tenant-a" not found'],
  ['operator', 'SyncFailed', 'failed to create Secret: the operator has no permission to create secrets'],
  ['operator', 'NotFound', 'the server could not find the requested resource'],
  ['operator', 'SomethingNew', 'a reason that nobody has classified'],
  ['none', 'Pending', ''],
  ['none', 'NamespaceTerminating', 'namespace b is being deleted'],
  ['none', 'Exists', 'Vault has the values.'],
];

for (const [fault, reason, message] of CASES) {
  it(`${fault}: ${reason}, ${message}`, () => {
    assert.equal(faultOf({ reason, message }), fault);
  });
}
