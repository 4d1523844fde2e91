/** The manifests of roles in deploy/ grant what the table of `granted.ts` says. */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import { it } from 'node:test';

import { type Granted, GRANTED, manifest, type RoleFile } from '../../support/granted.ts';
import { bindingsIn, rolesIn } from '../../support/permissions.ts';

const DEPLOY = new URL('../../../deploy/', import.meta.url);

it('the manifests of roles in deploy/ are those of the table', () => {
  assert.deepEqual(globSync('rbac*.yaml', { cwd: DEPLOY.pathname }).toSorted(), Object.keys(GRANTED).toSorted());
});

for (const [file, { roles, account, unbound = [] }] of Object.entries<Granted>(GRANTED)) {
  it(`${file} grants these permissions and no other, each bound to ${account}`, () => {
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
