/** Tests whether a copy that its rule does not claim may be deleted. A mistake here deletes a copy that is in use. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { asKey } from '../../../test/support/keys.ts';
import { observedObject } from '../../../test/support/observed-object.ts';
import { userCause } from '../model/cause.ts';
import { claimAll, type ClaimMode, LeaveShape } from '../model/claim.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';
import type { RuleSet, RuleState } from '../model/rule-set.ts';
import type { OrphanAction } from '../model/rule-set.ts';
import { Claims } from './claims.ts';

const RULE: RuleKey = asKey('rules:default/x');
const TARGET: ResourceKey = asKey('c:Secret/team/copy');
const COPY = observedObject({});
const GONE: RuleState = { state: 'gone' };
const live = (version: string): RuleState => ({ state: 'there', version });

/** Claims of a rule that was evaluated in version 1. @param policy for an orphan if the rule exists */
function setUp(claimed: readonly ResourceKey[] = [], policy: OrphanAction = 'keep', monotonic?: () => number): Claims {
  const rules: RuleSet = {
    name: 'rules',
    evaluate: () => assert.fail('not used'),
    markOn: () => ({ rule: RULE }),
    orphanPolicy: (_rule, _observed, ruleThere) => (ruleThere ? policy : 'delete'),
  };
  const claims = new Claims(monotonic);
  claims.add(rules);
  const owner = { key: RULE, title: RULE, rank: '' };
  const shape = new LeaveShape(userCause('', ''));
  const made = claimAll(claimed, { owner, mode: 'own', source: undefined, shape });
  claims.put(RULE, { owner, version: '1', claims: made, sources: [] });
  return claims;
}

it('the orphans of a rule are listed again whenever its version or its claims differ, and not after an equal evaluation', () => {
  const claims = setUp();
  claims.objectChanged(TARGET, undefined, observedObject({ annotations: { 'keyferry.dev/target': 'team/copy' } }));
  const owner = { key: RULE, title: RULE, rank: '' };
  const shape = new LeaveShape(userCause('', ''));
  const put = (version: string, ...targets: readonly ResourceKey[]): readonly ResourceKey[] => {
    const made = claimAll(targets, { owner, mode: 'own', source: undefined, shape });
    return claims.put(RULE, { owner, version, claims: made, sources: [] }).orphans;
  };
  assert.deepEqual(put('2'), [TARGET]);
  assert.deepEqual(put('2'), []);
  assert.deepEqual(put('2', asKey('c:Secret/new/copy')), [TARGET], 'a namespace was added');
  assert.deepEqual(claims.put(RULE, undefined).orphans, [TARGET]);
});

describe('a copy that its rule does not claim', () => {
  const action = async (claims: Claims, state: RuleState, isOutdated: () => boolean = () => false) =>
    await claims.orphanActionOf(RULE, TARGET, COPY, {
      isOutdated,
      getLive: async () => await Promise.resolve(state),
    });

  it('if the rule of an orphan does not exist, its orphan policy for a deleted rule decides', async () => {
    assert.equal(await action(setUp(), GONE), 'delete');
  });

  it('if the rule of an orphan still exists and has not changed since its evaluation, the policy for existing rules decides on the orphan', async () => {
    assert.equal(await action(setUp(), live('1')), 'keep');
  });

  it('if the rule on the server has another version than the evaluated one, the decision on an orphan is put off', async () => {
    assert.equal(await action(setUp(), live('2')), 'later');
  });

  it('while a rule waits for its evaluation, the decision on its orphan is put off, and the rule is not read', async () => {
    const answer = await setUp().orphanActionOf(RULE, TARGET, COPY, {
      isOutdated: () => true,
      getLive: () => assert.fail('not asked'),
    });
    assert.equal(answer, 'later');
  });

  it('if a rule changes while it is read, the decision on its orphan is put off', async () => {
    let looks = 0;
    assert.equal(await action(setUp(), live('1'), () => (looks += 1) > 1), 'later');
  });

  it('an orphan of a refused rule is kept, whatever the policy of its controller is', async () => {
    const claims = setUp([], 'delete');
    assert.equal(await action(claims, live('1')), 'delete');
    const owner = { key: RULE, title: RULE, rank: '' };
    claims.put(RULE, { owner, version: '1', claims: [], sources: [], refusal: userCause('InvalidSpec', '') });
    assert.equal(await action(claims, live('1')), 'keep');
    assert.equal(await action(claims, GONE), 'delete');
  });

  it('if a rule claims the copy meanwhile, the decision on the orphan is put off', async () => {
    assert.equal(await action(setUp([TARGET]), live('1')), 'later');
  });
});

describe('the time for which a copy stays that no rule claims', () => {
  const owner = { key: RULE, title: RULE, rank: '' };
  const shape = new LeaveShape(userCause('', ''));
  const claimBy = (claims: Claims, rule: RuleKey, mode: ClaimMode, targets: readonly ResourceKey[]): void => {
    const claim = { owner: { ...owner, key: rule }, mode, source: undefined, shape };
    claims.put(rule, { owner: claim.owner, version: '1', claims: claimAll(targets, claim), sources: [] });
  };

  it('begins each time that its rule lets it go, and is not asked of a command, which has no clock', () => {
    let now = 0;
    for (const clock of [() => now, undefined]) {
      const claims = setUp([TARGET], 'delete', clock);
      claims.objectChanged(TARGET, undefined, observedObject({ annotations: { 'keyferry.dev/target': 'team/copy' } }));
      for (const start of [0, 10_000]) {
        now = start;
        claimBy(claims, RULE, 'own', [TARGET]);
        claimBy(claims, RULE, 'own', []);
        now += 100;
        assert.equal(claims.graceLeft(RULE, TARGET), clock && 400);
        now += 900;
        assert.equal(claims.graceLeft(RULE, TARGET), clock && 0);
      }
    }
  });

  it('begins when the copy is decided first if no rule let it go, as after a restart', () => {
    let now = 1000;
    const claims = setUp([], 'delete', () => now);
    assert.equal(claims.graceLeft(RULE, TARGET), 500);
    now = 1500;
    assert.equal(claims.graceLeft(RULE, TARGET), 0);
  });

  it('ends when another rule claims the copy, but not if the copy is only filled', () => {
    const claims = setUp([], 'delete', () => 0);
    claimBy(claims, asKey('rules:default/filler'), 'fill', [TARGET]);
    assert.equal(claims.graceLeft(RULE, TARGET), 500);
    claimBy(claims, asKey('rules:default/other'), 'own', [TARGET]);
    assert.equal(claims.graceLeft(RULE, TARGET), undefined);
  });

  it('does not count for an object that is emptied', () => {
    const claims = setUp([], 'delete', () => 0);
    claimBy(claims, RULE, 'fill', [TARGET]);
    assert.equal(claims.graceLeft(RULE, TARGET), undefined);
  });
});
