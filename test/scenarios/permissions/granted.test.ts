/** Tests that the manifests of roles in deploy/ grant exactly the permissions in the table of `granted.ts`. */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { it } from 'node:test';

import { type Granted, GRANTED, manifest, type RoleFile } from '../../support/granted.ts';
import { bindingsIn, rolesIn } from '../../support/permissions.ts';

const DEPLOY = new URL('../../../deploy/', import.meta.url);

it('every manifest of roles in deploy/ is in the table GRANTED, and every manifest in the table exists', () => {
  assert.deepEqual(globSync('rbac*.yaml', { cwd: DEPLOY.pathname }).toSorted(), Object.keys(GRANTED).toSorted());
});

for (const [file, { roles, account, unbound = [] }] of Object.entries<Granted>(GRANTED)) {
  it(`${file} grants exactly the permissions in the table GRANTED, and binds its roles to ${account}`, () => {
    const text = manifest(file as RoleFile);
    assert.deepEqual(rolesIn(text), roles);
    const bindings = bindingsIn(text);
    assert.deepEqual(
      bindings.map((binding) => binding.text).toSorted(),
      Object.keys(roles)
        .filter((role) => !unbound.includes(role))
        .map((role) => `${role.split(' ')[0]}Binding ${role}`)
        .toSorted(),
    );
    const [namespace, name] = account.split('/');
    for (const { subjects } of bindings) assert.deepEqual(subjects, [{ kind: 'ServiceAccount', name, namespace }]);
  });
}
