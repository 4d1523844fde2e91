import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EsoCondition, ExternalSecret } from '../api.ts';
import { type ConditionMode, type ExternalSecretRule, type Need, needOf, ruleOf } from './external-secret.ts';
import { found, recreating, resultOf, textOf } from '../run/result.ts';

const FAILING: EsoCondition = { type: 'Ready', status: 'False', reason: 'SecretSyncedError', message: 'm' };
const READY: EsoCondition = { type: 'Ready', status: 'True', reason: 'SecretSynced', message: 'm' };
const DELETED: EsoCondition = { type: 'Ready', status: 'False', reason: 'SecretDeleted' };
const MADE: EsoCondition = { type: 'Created', status: 'True', reason: 'Success', message: 'made' };
const FAILED: EsoCondition = { type: 'Created', status: 'False', reason: 'ErrorCreating', message: 'failed' };
const FOREIGN: EsoCondition = { type: 'Created', status: 'False', reason: 'Somebody', message: 'else' };

const RESULT = 'keyferry.dev/generator';
const SUCCESS_TEXT = textOf(found(undefined));
const FAILED_TEXT = textOf(recreating(undefined));

const metadata: ExternalSecret['metadata'] = {
  name: 'postgres',
  namespace: 'dev',
  uid: 'u1',
  resourceVersion: '7',
  generation: 2,
  creationTimestamp: '2026-01-01T00:00:00Z',
};
const writtenBy = (manager: string): Partial<ExternalSecret['metadata']> => ({
  managedFields: [
    { manager, fieldsV1: { 'f:metadata': { 'f:annotations': { [`f:${RESULT}`]: {} } } } },
    { manager: 'keyferry', subresource: 'status', fieldsV1: { 'f:status': {} } },
  ],
});
const OURS = writtenBy('keyferry');
const spec = {
  secretStoreRef: { name: 'vault' },
  data: [{ remoteRef: { key: 'secret/dev/app', property: 'password' } }],
};

interface Shape {
  readonly annotations?: Readonly<Record<string, string>>;
  readonly conditions?: readonly EsoCondition[];
  readonly meta?: Partial<ExternalSecret['metadata']>;
}

function object({ annotations = { create: 'true' }, conditions = [FAILING], meta = {} }: Shape = {}): ExternalSecret {
  return { metadata: { ...metadata, ...OURS, ...meta, annotations }, spec, status: { conditions } };
}

function rule(shape: Shape = {}, all = false): ExternalSecretRule {
  const result = ruleOf(object(shape), all);
  assert.ok(result !== undefined, JSON.stringify(shape));
  return result;
}

test('the annotation create, the conditions and the last result of an ExternalSecret decide what it needs from the generator', () => {
  const yes = { create: 'true' };
  const cases: readonly (readonly [shape: Shape, limited: Need | undefined, allowed: Need | undefined])[] = [
    [{}, 'values', 'values'],
    [{ annotations: { create: 'yes' } }, 'setting', 'setting'],
    [{ annotations: {} }, undefined, undefined],
    [{ conditions: [] }, undefined, undefined],
    [{ conditions: [READY] }, undefined, undefined],
    [{ conditions: [DELETED] }, undefined, undefined],
    [{ conditions: [{ type: 'Ready', status: 'Unknown', reason: 'SecretSyncedError' }] }, undefined, undefined],
    [{ meta: { deletionTimestamp: '2026-01-01T00:00:00Z' } }, undefined, undefined],
    // The last result is a failure, but ESO has read the values since.
    [{ annotations: { ...yes, [RESULT]: FAILED_TEXT }, conditions: [READY] }, 'found', 'found'],
    [{ annotations: { ...yes, [RESULT]: SUCCESS_TEXT }, conditions: [READY] }, undefined, undefined],
    [{ annotations: { create: 'no', [RESULT]: FAILED_TEXT }, conditions: [READY] }, 'found', 'found'],
    [{ annotations: { [RESULT]: FAILED_TEXT }, conditions: [READY] }, undefined, undefined],
    [{ annotations: { ...yes, [RESULT]: FAILED_TEXT }, conditions: [DELETED] }, undefined, undefined],
    // The condition was written, but the write of the annotation failed.
    [{ annotations: { ...yes, [RESULT]: FAILED_TEXT }, conditions: [MADE, READY] }, 'healing', 'found'],
    [{ annotations: { ...yes, [RESULT]: SUCCESS_TEXT }, conditions: [MADE, READY] }, 'healing', undefined],
    // If the CRD does not allow the condition Created, this condition is removed, even without the annotation create.
    [{ conditions: [MADE, FAILING] }, 'healing', 'values'],
    [{ conditions: [MADE, READY] }, 'healing', undefined],
    [{ conditions: [FAILED, READY] }, 'healing', 'found'],
    [{ annotations: {}, conditions: [FAILED, FAILING] }, 'healing', undefined],
    [{ annotations: { create: 'yes' }, conditions: [FAILED, FAILING] }, 'healing', 'setting'],
    [
      { annotations: {}, conditions: [FAILED], meta: { deletionTimestamp: '2026-01-01T00:00:00Z' } },
      undefined,
      undefined,
    ],
    // A condition Created that another program wrote is not changed.
    [{ annotations: {}, conditions: [FOREIGN, READY] }, undefined, undefined],
    [{ conditions: [FOREIGN, FAILING] }, 'values', 'values'],
    [{ conditions: [FOREIGN, READY] }, undefined, undefined],
  ];
  for (const [shape, limited, allowed] of cases) {
    const of = (mode: ConditionMode): Need | undefined => {
      const kept = ruleOf(object(shape), false);
      return kept && needOf(kept, mode);
    };
    const title = JSON.stringify(shape);
    assert.equal(of('limited'), limited, `limited ${title}`);
    assert.equal(of('allowed'), allowed, `allowed ${title}`);
    assert.equal(of('unknown'), allowed, `unknown ${title}`);
  }
});

test('with --all, every failing ExternalSecret needs values, except those that opt out with create "false"', () => {
  assert.equal(needOf(rule({ annotations: {} }, true), 'limited'), 'values');
  assert.equal(ruleOf(object({ annotations: { create: 'false' } }), true), undefined);
  assert.equal(needOf(rule({ annotations: { create: 'no' } }, true), 'limited'), 'setting');
  assert.equal(ruleOf(object({ annotations: {}, conditions: [READY] }), true), undefined);
});

test('ruleOf returns undefined for an ExternalSecret that needs nothing; for others it returns no long or unused fields', () => {
  for (const status of [undefined, {}, { conditions: [] }]) {
    assert.equal(
      ruleOf({ metadata: { ...metadata, annotations: { create: 'true' } }, ...(status && { status }) }, true),
      undefined,
    );
  }
  const big = 'x'.repeat(10_000);
  const annotations = { create: 'true', 'kubectl.kubernetes.io/last-applied-configuration': big, [big]: 'x' };
  const kept = rule({ annotations, meta: { labels: { big }, managedFields: [{ manager: big }], finalizers: [big] } });
  assert.doesNotMatch(JSON.stringify(kept), /xxxx/);
  assert.deepEqual(
    kept.requests.wanted.map(({ key }) => key),
    ['secret/dev/app'],
  );
  assert.deepEqual(rule({ annotations: { create: 'wrong' } }).requests.wanted, [], 'its data is not needed');
});

test('the version of an ExternalSecret as a rule changes when its author changes it, but not when Keyferry or ESO write to it', () => {
  const { version } = rule();
  const ours = { create: 'true', [RESULT]: SUCCESS_TEXT };
  for (const same of [
    { annotations: ours },
    { annotations: { ...ours, other: 'x' } },
    { conditions: [MADE, FAILING] },
    { conditions: [{ ...FAILING, message: 'other' }, FOREIGN] },
    { meta: { resourceVersion: '8', labels: { a: 'b' } } },
  ]) {
    assert.equal(rule(same).version, version, JSON.stringify(same));
  }
  for (const other of [
    { annotations: { create: 'false' } },
    { annotations: { create: 'true', 'keyferry.dev/generate-length': '8' } },
    { conditions: [MADE, READY] },
    { meta: { generation: 3 } },
    { meta: { uid: 'u2' } },
  ]) {
    assert.notEqual(rule(other).version, version, JSON.stringify(other));
  }
});

test('the last result has reason and message of the condition Created, and the versions of entries from the annotation', () => {
  const state = { path: 'secret/data/dev/app', version: 3, createdTime: 't', made: true };
  const success = resultOf({ entries: [state], nested: [], problems: [] }, undefined);
  const annotations = { create: 'true', [RESULT]: textOf(success) };
  assert.deepEqual(rule({ annotations }).result, success);
  const both = rule({ annotations, conditions: [FAILED, FAILING] }).result;
  assert.deepEqual(both, { ...success, created: false, reason: 'ErrorCreating', message: 'failed' });
  const alone = rule({ conditions: [{ type: 'Created', status: 'True', reason: 'Exists' }, FAILING] }).result;
  assert.deepEqual(alone, { created: true, reason: 'Exists', message: '', entries: {} });
  assert.equal(rule({ conditions: [FOREIGN, FAILING] }).result, undefined);
  assert.equal(rule({ annotations: { create: 'true', [RESULT]: 'not ours' } }).result, undefined);
});

test('a result in the annotation does not count if another client than Keyferry wrote the annotation', () => {
  for (const text of [SUCCESS_TEXT, FAILED_TEXT]) {
    const annotations = { create: 'true', [RESULT]: text };
    for (const meta of [writtenBy('kubectl'), { managedFields: [] }])
      assert.equal(rule({ annotations, meta }).result, undefined);
    assert.notEqual(rule({ annotations }).result, undefined);
    assert.equal(ruleOf(object({ annotations, conditions: [READY], meta: writtenBy('kubectl') }), false), undefined);
  }
});

test('an ExternalSecret with up to 50 conditions besides Created is stored with all of them; if there are more, with none', () => {
  const others = Array.from({ length: 49 }, (_, index): EsoCondition => ({ type: `T${index}`, status: 'True' }));
  const full = [FAILING, ...others];
  assert.equal(rule({ conditions: full }).conditions?.length, 50);
  assert.equal(rule({ conditions: [...full, MADE] }).conditions?.length, 51);
  assert.equal(rule({ conditions: [...full, { type: 'More' }] }).conditions, undefined);
});
