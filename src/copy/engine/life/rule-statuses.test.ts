import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KubeObject } from '../../../kube/api.ts';
import type { RuleKey } from '../../model/keys.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { RuleClient } from './rule-client.ts';
import { nextCondition, type RuleStatus, sameStatus } from './condition.ts';
import { RuleStatuses } from './rule-statuses.ts';

const THEN = '2026-11-21T10:00:00Z';
const NOW = Date.parse('2026-11-21T11:00:00Z');
const BEFORE = { type: 'Ready', status: 'False', lastTransitionTime: THEN, reason: 'A', message: 'a' } as const;

test('lastTransitionTime of a condition changes only if the status of the condition changes', () => {
  const other = { type: 'Ready', status: 'False', reason: 'B', message: 'b' } as const;
  assert.deepEqual(nextCondition(BEFORE, other, 3, NOW), { ...BEFORE, ...other, observedGeneration: 3 });
  const changed = { type: 'Ready', status: 'True', reason: 'B', message: 'b' } as const;
  const time = { lastTransitionTime: '2026-11-21T11:00:00Z' };
  assert.deepEqual(nextCondition(BEFORE, changed, undefined, NOW), { ...changed, ...time });
  assert.deepEqual(nextCondition(undefined, other, undefined, NOW), { ...other, ...time });
});

test('a message of a condition above the limit is shortened; a character that is cut in half becomes U+FFFD', () => {
  const messageOf = (message: string, max?: number): string =>
    nextCondition(undefined, { ...BEFORE, message }, 1, NOW, max).message;
  assert.equal(messageOf('abcd', 4), 'abcd');
  assert.equal(messageOf('abcde', 4), 'abc…');
  assert.equal(messageOf('ab\u{1f511}cd', 4), 'ab\ufffd…');
  assert.equal(messageOf('x'.repeat(40_000)).length, 32_768);
});

test('two statuses are the same if they differ only in lastTransitionTime, in the order of fields, or in conditions of other clients', () => {
  const { reason, ...rest } = BEFORE;
  const isSame = (a: RuleStatus, b: RuleStatus): boolean => sameStatus(a, b, new Set(['Ready']));
  const status = { phase: 'x', conditions: [BEFORE] };
  assert.ok(isSame(status, { conditions: [{ reason, ...rest, lastTransitionTime: 'now' }], phase: 'x' } as RuleStatus));
  assert.ok(isSame(status, { ...status, conditions: [{ ...BEFORE, type: 'Other' }, BEFORE] }));
  assert.ok(isSame({}, { conditions: [] }));
  for (const other of [{ status: 'True' }, { reason: 'B' }, { message: 'b' }, { observedGeneration: 1 }] as const)
    assert.ok(!isSame(status, { ...status, conditions: [{ ...BEFORE, ...other }] }));
  assert.ok(!isSame(status, { ...status, conditions: [] }));
  assert.ok(!isSame(status, { ...status, conditions: [BEFORE, BEFORE] }));
  assert.ok(!isSame(status, { ...status, phase: 'y' } as RuleStatus));
});

interface Status extends RuleStatus {
  readonly phase?: string;
}
type Rule = KubeObject & { readonly status?: Status };
const KEY: RuleKey = asKey('test:default/x');

/** A rule whose status Keyferry wrote ten times after another client had changed it, so that the next repair waits. */
async function contested() {
  let version = 1;
  let rule: Rule = { metadata: { name: 'x', uid: 'u', resourceVersion: '1', creationTimestamp: '' } };
  let report: (key: RuleKey, before: Rule, after: Rule) => void = () => undefined;
  const put = (status: Status): Rule => {
    return (rule = { metadata: { ...rule.metadata, resourceVersion: String((version += 1)) }, status });
  };
  const client: Pick<RuleClient, 'putStatus'> = {
    putStatus: async (_key, _uid, status) => await Promise.resolve(put(status)),
  };
  const statuses = new RuleStatuses<Rule, Status>({
    client,
    store: { get: () => rule, onSameVersion: (listener) => void (report = listener), storeResponse: () => undefined },
    onForeign: () => undefined,
    now: () => 0,
  });
  const { signal } = new AbortController();
  const write = async (phase: string): Promise<number> => {
    const pauseMs = statuses.pauseMs(KEY, rule, { phase });
    if (pauseMs === 0) await statuses.write(KEY, rule, { phase }, signal);
    return pauseMs;
  };
  const forge = (phase: string): void => report(KEY, rule, put({ phase }));
  await write('Synced');
  for (let count = 0; count < 10; count += 1) {
    forge('Forged');
    assert.equal(await write('Synced'), 0);
  }
  return { statuses, write, forge };
}

test('if another client has changed a status and has changed it back, the next status is written without a pause', async () => {
  const { write, forge } = await contested();
  forge('Forged');
  assert.equal(await write('Synced'), 1000);
  forge('Synced');
  assert.equal(await write('Synced'), 0);
  assert.equal(await write('Failed'), 0);
});

test('if a rule is gone, the repairs of its status do not count for a new rule with the same name', async () => {
  const { statuses, write, forge } = await contested();
  statuses.forget(KEY);
  forge('Forged');
  assert.equal(await write('Synced'), 0);
});

test('a status that the server keeps in another form counts for its object, not for a new one with the same name', async () => {
  const rule: Rule = { metadata: { name: 'x', uid: 'u', resourceVersion: '1', creationTimestamp: '' } };
  // The CRD of this server lacks the field, so it is dropped.
  const client: Pick<RuleClient, 'putStatus'> = { putStatus: async () => await Promise.resolve({ ...rule }) };
  const statuses = new RuleStatuses<Rule, Status>({
    client,
    store: { get: () => rule, onSameVersion: () => undefined, storeResponse: () => undefined },
    onForeign: () => undefined,
    now: () => 0,
  });
  await statuses.write(KEY, rule, { phase: 'Synced' }, new AbortController().signal);
  assert.deepEqual(statuses.latest(KEY, rule), { phase: 'Synced' });
  assert.deepEqual(statuses.latest(KEY, { metadata: { ...rule.metadata, uid: 'new' } }), {});
});
