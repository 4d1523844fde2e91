/** Checks what Keyferry does with an orphan whose rule it cannot read. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { asKey } from '../../../../test/support/keys.ts';
import { observedObject } from '../../../../test/support/observed-object.ts';
import type { KubeApi } from '../../../kube/api.ts';
import { ApiError } from '../../../kube/errors.ts';
import { ServedNamespaces } from '../../../kube/watch/served-namespaces.ts';
import type { Claims } from '../../book/claims.ts';
import type { FactSource } from '../../plan/decide.ts';
import { NamespaceReads } from '../watch/namespace-reads.ts';
import { Namespaces } from '../watch/namespaces.ts';
import { orphanActions } from './out-of-sight.ts';

const call = { cluster: 'local', method: 'GET', path: '/' };
const refuse = async (): Promise<never> =>
  await Promise.reject(new ApiError(call, 403, { reason: 'Forbidden', message: 'no', causes: [] }));
const fail = async (): Promise<never> =>
  await Promise.reject(new ApiError(call, 500, { reason: '', message: '', causes: [] }));

/** The action for an orphan. @param existing the namespaces on the server; `undefined`: no request may be sent */
async function actionFor(
  served: ServedNamespaces | undefined,
  existing: readonly string[] | undefined,
  inSight: FactSource['orphanActionOf'],
): Promise<string> {
  const request = async ({ query }: { query: { labelSelector: string } }): Promise<unknown> => {
    assert.ok(existing !== undefined, 'a request was sent');
    const name = query.labelSelector.replace(/^kubernetes\.io\/metadata\.name in \((.*)\)$/, '$1');
    const items = existing.includes(name) ? [{ metadata: { name, uid: name } }] : [];
    return await Promise.resolve({ status: 200, body: Buffer.from(JSON.stringify({ metadata: {}, items })) });
  };
  const api = { cluster: 'local', request } as unknown as KubeApi;
  const claims = { ruleSetOf: () => ({ orphanPolicy: () => 'delete' }) } as unknown as Claims;
  const decide = orphanActions(
    new NamespaceReads({ api, namespaces: new Namespaces(), served }),
    claims,
    served,
    inSight,
  );
  return await decide(
    asKey('mirrors:team-a/x'),
    asKey('local:Secret/b/x'),
    observedObject(),
    AbortSignal.timeout(5000),
  );
}

describe('the decision on an orphan', () => {
  const without = (): ServedNamespaces => new ServedNamespaces(['b'], 'team=a');
  const withIt = (): ServedNamespaces => new ServedNamespaces(['b', 'team-a'], 'team=a');
  const inSight = async (): Promise<'delete'> => await Promise.resolve('delete');

  it('if the rule of an orphan is in a served namespace, the rule is read to decide on the orphan', async () => {
    for (const served of [undefined, withIt()]) assert.equal(await actionFor(served, undefined, inSight), 'delete');
    await assert.rejects(actionFor(withIt(), undefined, fail), ApiError);
  });

  it('an orphan is kept if the label selector of Keyferry does not serve the namespace of its rule, as long as this namespace exists', async () => {
    assert.equal(await actionFor(without(), ['team-a'], fail), 'keep');
    assert.equal(await actionFor(without(), [], fail), 'delete', 'the policy of the rule decides');
  });

  it('an orphan is kept without a request if the list of served namespaces lacks the namespace of its rule', async () => {
    assert.equal(await actionFor(new ServedNamespaces(['b']), undefined, fail), 'keep');
  });

  it('an orphan is kept if the label selector of Keyferry serves the namespace of its rule, but the permission to read the rule is missing', async () => {
    assert.equal(await actionFor(withIt(), undefined, refuse), 'keep');
    const listed = new ServedNamespaces(['b', 'team-a']);
    await assert.rejects(actionFor(listed, undefined, refuse), ApiError, 'as before, where the names are a list');
  });
});
