/** Who owns a copy, and whether an orphan is deleted. A mistake here deletes copies of other clusters or tenants. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';

import { observedObject } from '../../../../test/support/observed-object.ts';
import type { SourceView } from '../../../copy/model/claim.ts';
import { KeyLists } from '../../../copy/model/key-lists.ts';
import { ownersText } from '../../../copy/model/observed.ts';
import { RuleStore } from '../../../copy/engine/life/rule-store.ts';
import { SYNC_SECRET, SYNC_SECRET_FINALIZER } from '../api.ts';
import { ORIGIN_ANNOTATION, UNKNOWN_CLUSTER } from './marks.ts';
import { ruleOf, type SyncSecretRule } from './rule.ts';
import { CCM_CONTROLLER, CcmRules, MANAGER_CONTROLLER, ManagerRules } from './sync-secret-rule-set.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { ResourceKey } from '../../../copy/model/keys.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';

const UID = '0a1b2c3d-0000-4000-8000-000000000001';
const store = (controller: string): RuleStore<SyncSecretRule> =>
  new RuleStore<SyncSecretRule>({ controller, toRule: unused, versionOf: unused });
const unused = (): never => assert.fail('not used');

function ccm(clusterUid: string | undefined, rule?: SyncSecretRule): CcmRules {
  const rules = store(CCM_CONTROLLER);
  return new CcmRules(ruleScope(), {
    store: { key: (...place) => rules.key(...place), get: () => rule },
    management: 'm',
    namespace: 'tenant-one',
    clusterUid: () => clusterUid,
    copyOf: () => undefined,
  });
}

describe('the CCM', () => {
  const marked = observedObject({ annotations: { [ORIGIN_ANNOTATION]: 'cluster/app/db' } });
  const ownerIn = (target: ResourceKey): string | undefined => ccm('cluster').markOn(marked, target)?.rule;

  it('the CCM owns marked objects only if they are SyncSecrets in its own namespace of the management cluster', () => {
    assert.equal(ownerIn(asKey(`m:SyncSecret/tenant-one/${UID}`)), `${CCM_CONTROLLER}:app/db`);
    for (const target of [
      `m:SyncSecret/tenant-two/${UID}`,
      `m:SyncSecret/tenant-one-more/${UID}`,
      `c:SyncSecret/tenant-one/${UID}`,
      `m:Secret/tenant-one/${UID}`,
    ]) {
      assert.equal(ownerIn(asKey(target)), undefined, target);
    }
  });

  it('the CCM does not own copies whose mark has the uid of another cluster', () => {
    assert.equal(ccm('another').markOn(marked, asKey(`m:SyncSecret/tenant-one/${UID}`)), undefined);
  });

  it('the CCM deletes an orphan only if the uid of its cluster is known and stands in the mark', () => {
    const policy = (own: string | undefined, mark: string): string =>
      ccm(own).orphanPolicy(
        asKey(`${CCM_CONTROLLER}:app/db`),
        observedObject({ annotations: { [ORIGIN_ANNOTATION]: mark } }),
      );
    assert.equal(policy('cluster', 'cluster/app/db'), 'delete');
    assert.equal(policy('cluster', 'another/app/db'), 'keep');
    assert.equal(policy(UNKNOWN_CLUSTER, `${UNKNOWN_CLUSTER}/app/db`), 'keep');
    assert.equal(policy(undefined, 'cluster/app/db'), 'keep');
    assert.equal(ccm(undefined).orphanPolicy(asKey(`${CCM_CONTROLLER}:app/db`), observedObject()), 'keep');
  });
});

test('the CCM makes the copy of a SyncSecret only when the SyncSecret has the finalizer', () => {
  const state = (finalizers: readonly string[]): string => {
    const rule = ruleOf(
      {
        metadata: { namespace: 'app', name: 'db', uid: UID, resourceVersion: '1', creationTimestamp: '', finalizers },
      },
      new KeyLists(),
    );
    const [claimed] = ccm('cluster', rule).evaluate(asKey(`${CCM_CONTROLLER}:app/db`))?.claims ?? [];
    const source: SourceView = { state: 'present', version: '1', labels: {}, annotations: {} };
    return claimed?.claim.shape.desiredState(source, undefined, 0).kind ?? 'none';
  };
  assert.equal(state([]), 'wait');
  assert.equal(state(['example.com/other']), 'wait');
  assert.equal(state([SYNC_SECRET_FINALIZER]), 'be');
});

describe('the manager', () => {
  const manager = new ManagerRules(ruleScope(), {
    store: store(MANAGER_CONTROLLER),
    isServed: () => true,
  });
  const ownerOf = (uid: string, kind = SYNC_SECRET.kind): string | undefined => {
    const owners = ownersText([{ apiVersion: SYNC_SECRET.apiVersion, kind, name: 'db', uid }]);
    return manager.markOn(observedObject({ owners }), asKey(`c:Secret/tenant-one/${UID}`))?.rule;
  };

  it('an owner reference of KubeLB counts as a mark only if its uid is the name of the Secret', () => {
    assert.equal(ownerOf(UID), `${MANAGER_CONTROLLER}:tenant-one/db`);
    assert.equal(ownerOf('0a1b2c3d-0000-4000-8000-000000000002'), undefined);
    assert.equal(ownerOf(UID, 'LoadBalancer'), undefined);
  });

  it('the manager keeps orphans in namespaces that it does not serve', () => {
    const isServed = (namespace: string): boolean => namespace === 'tenant-one';
    const some = new ManagerRules(ruleScope(), { store: store(MANAGER_CONTROLLER), isServed });
    assert.equal(some.orphanPolicy(asKey(`${MANAGER_CONTROLLER}:tenant-one/db`)), 'delete');
    assert.equal(some.orphanPolicy(asKey(`${MANAGER_CONTROLLER}:tenant-two/db`)), 'keep');
  });
});
