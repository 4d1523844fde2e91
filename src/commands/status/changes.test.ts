import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { FailingTarget, RuleStatus } from '../snapshot/status-report.ts';
import { ruleStatus } from '../../../test/support/rule-status.ts';
import { changesBetween } from './changes.ts';
import type { StatusReport } from '../../../scripts/reports/schemas.ts';

const RULE = ruleStatus({ system: 's', kind: 'Rule', namespace: 'a', name: 'r' });
const COPY = { kind: 'Secret', namespace: 'b', name: 'x', sourceVersion: '1' };
const FAILING: FailingTarget = { kind: 'Secret', namespace: 'b', name: 'x', state: 'error', reason: 'R', message: 'm' };
const BROKEN = { ...RULE, state: 'Error', ready: false, reason: 'R' };

const report = (...rules: readonly RuleStatus[]): StatusReport => ({
  apiVersion: 'keyferry.dev/v1',
  kind: 'Status',
  cluster: '',
  systems: [],
  leaders: [],
  notes: [],
  namespaces: [],
  rules,
  orphans: [],
});
const changes = (before: StatusReport, after: StatusReport, failed = false): string[] =>
  changesBetween(before, after, failed).map(({ what, title, text }) => `${what}: ${title}: ${text}`);

describe('changes of a status', () => {
  it('between two equal reports of status there are no changes', () => {
    assert.deepEqual(changes(report(RULE), report({ ...RULE })), []);
  });

  it('the changes between two reports of status are the added, changed and gone rules, copies and failing targets', () => {
    const none = 'last sync never, Synced: ';
    assert.deepEqual(changes(report(), report(RULE)), [`rule added: Rule a/r: Active, 0 copies, ${none}`]);
    assert.deepEqual(changes(report(RULE), report()), [`rule gone: Rule a/r: was Active, 0 copies, ${none}`]);
    assert.deepEqual(changes(report(RULE), report({ ...RULE, copies: [COPY] })), [
      `rule changed: Rule a/r: Active, 1 copy, ${none}`,
      'copy added: Secret b/x: for Rule a/r at version 1',
    ]);
    const [old, now] = ['1', '2'].map((sourceVersion) => report({ ...RULE, copies: [{ ...COPY, sourceVersion }] }));
    assert.deepEqual(changes(old!, now!), ['copy changed: Secret b/x: for Rule a/r at version 2']);
    assert.deepEqual(changes(report({ ...BROKEN, failing: [FAILING] }), report(BROKEN)), [
      'failing gone: Secret b/x: for Rule a/r, R: m',
    ]);
  });

  it('if two rules begin to fail on the same target, status --watch shows two changes', () => {
    const both = report({ ...BROKEN, failing: [FAILING] }, { ...BROKEN, name: 'q', failing: [FAILING] });
    assert.deepEqual(changes(report(BROKEN, { ...BROKEN, name: 'q' }), both).length, 2);
  });

  it('with --failed, status --watch shows only problems that begin, change or end', () => {
    assert.deepEqual(changes(report(), report({ ...RULE, copies: [COPY] }), true), []);
    assert.equal(changes(report(RULE), report(BROKEN), true).length, 1);
    assert.equal(changes(report(BROKEN), report(RULE), true).length, 1);
    assert.equal(changes(report(BROKEN), report(), true).length, 1);
    // A ready rule with a warning has a problem, too: for example, one of its patterns has a mistake.
    assert.equal(changes(report(RULE), report({ ...RULE, message: 'm', warnings: ['m'] }), true).length, 1);
    const orphan = { ...COPY, system: 's', owner: 'a/r', reason: 'why' };
    const orphans: StatusReport['orphans'] = [
      { ...orphan, action: 'delete' },
      { ...orphan, name: 'kept' },
    ];
    assert.deepEqual(changes(report(), { ...report(), orphans }, true), ['orphan added: Secret b/x: why']);
  });
});
