import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { unpainted } from '../output/terminal.ts';
import type { RuleStatus } from '../snapshot/status-report.ts';
import type { StatusFindings } from './report.ts';
import { age, summary } from './summary.ts';

const READY: RuleStatus = {
  system: 'mirrors',
  kind: 'SecretMirror',
  namespace: 'team',
  name: 'ready',
  source: 'secret team/db',
  from: null,
  destinations: ['.*'],
  elsewhere: [],
  since: null,
  refused: [],
  state: 'Active',
  ready: true,
  reason: 'Synced',
  message: 'everything is up to date',
  lastSyncTime: '2026-01-01T00:00:00Z',
  copies: [{ kind: 'Secret', namespace: 'a', name: 'db', sourceVersion: '1' }],
  failing: [],
  warnings: [],
};
const broken = (name: string, reason: string, state = 'Error'): RuleStatus => {
  return {
    ...READY,
    name,
    reason,
    state,
    ready: false,
    message: `${name} has ${reason}`,
    lastSyncTime: null,
    copies: [],
  };
};

function shown(rules: readonly RuleStatus[], { columns = Infinity, orphans = 0, copies = false } = {}): string {
  const orphan = { ...READY.copies[0], system: 'mirrors', owner: 'team/gone', reason: 'gone' };
  const report = { rules, orphans: Array.from({ length: orphans }, () => orphan) };
  const findings = { report } as unknown as StatusFindings;
  const now = Date.parse('2026-01-01T00:03:10Z');
  return summary(findings, { paint: unpainted, columns, now, copies }).toString();
}

describe('the summary of keyferry status', () => {
  it('if all rules are ready, it is one sentence and a line for each rule', () => {
    assert.equal(
      shown([READY]),
      `1 rule, 1 copy; it is ready.

  SYSTEM    RULE                      COPIES   SYNCED   STATE
✓ mirrors   SecretMirror team/ready   1        3m       Active
`,
    );
  });

  it('the sentence counts rules, copies and causes; a rule that cannot be judged is not counted as broken', () => {
    const rules = [
      READY,
      broken('a', 'NoSecret'),
      broken('b', 'Conflict'),
      broken('c', 'NoSecret'),
      broken('d', 'Limited'),
    ];
    const [first] = shown(rules).split('\n');
    assert.equal(
      first,
      '5 rules, 1 copy; 3 rules are not ready: 2 NoSecret, 1 Conflict; 1 rule cannot be judged by what was read.',
    );
  });

  it('each cause says what it means, shows three rules, counts the others, and says who ends it and how', () => {
    const text = shown(['a', 'b', 'c', 'd', 'e'].map((name) => broken(name, 'NoSecret')));
    assert.match(
      text,
      /\n✗ 5 × NoSecret: the source does not exist\n {4}SecretMirror team\/a: a has NoSecret\n.*\n {4}SecretMirror team\/c: c has NoSecret\n {4}and 2 more: .*status --failed\n {4}→ the author of the rule: create it, or correct its name\n/,
    );
    assert.doesNotMatch(text, /d has NoSecret/);
  });

  it('causes that pass by themselves come after those that somebody must end, and broken rules before ready ones', () => {
    const text = shown([
      READY,
      broken('x', 'Pending', 'Pending'),
      broken('y', 'Pending', 'Pending'),
      broken('z', 'Conflict'),
    ]);
    const order = [/✗ 1 × Conflict/, /✗ 2 × Pending/, /^✗ .*team\/z/m, /^✗ .*team\/x/m, /^✓ .*team\/ready/m];
    const places = order.map((line) => text.search(line));
    assert.deepEqual(
      places,
      places.toSorted((a, b) => a - b),
    );
    assert.ok(!places.includes(-1), text);
  });

  it('of a ready rule that copies nowhere, its line says why; not if its copies are elsewhere', () => {
    const idle = { ...READY, copies: [], message: '0 copies: no other namespace matches' };
    const line = (rule: RuleStatus): string | undefined => shown([rule]).split('\n')[3];
    assert.match(line(idle) ?? '', / 0 +3m +Active \(0 copies: no other namespace matches\)$/);
    const place = { cluster: 'vault', kind: 'Vault', namespace: '', name: 'x' };
    for (const rule of [{ ...idle, message: '' }, { ...idle, elsewhere: [place] }, READY])
      assert.match(line(rule) ?? '', / Active$/);
  });

  it('a reason that Keyferry does not know is shown without advice', () => {
    assert.match(shown([broken('a', 'SomethingOfESO')]), /\n✗ 1 × SomethingOfESO\n {4}SecretMirror team\/a: .*\n\n/);
  });

  it('at 80 columns, no line but those of the table is longer', () => {
    const long = { ...broken('a', 'Conflict'), message: 'word '.repeat(60).trim() };
    const lines = shown([long, READY], { columns: 80, orphans: 2 }).split('\n');
    assert.deepEqual(
      lines.filter((line) => line.length > 80),
      [],
    );
  });

  it('copies have lines only if they are wanted, and orphans are counted', () => {
    assert.doesNotMatch(shown([READY]), /COPY/);
    assert.match(
      shown([READY], { copies: true }),
      /\nCOPY +FOR +OF\nSecret a\/db +SecretMirror team\/ready +secret team\/db\n/,
    );
    assert.match(shown([READY], { orphans: 2 }), /\n2 copies have no rule: .*status --orphans\n/);
  });
});

for (const [ms, text] of [
  [-5, '0s'],
  [119_000, '119s'],
  [120_000, '2m'],
  [7_199_000, '119m'],
  [7_200_000, '2h'],
  [172_799_000, '47h'],
  [172_800_000, '2d'],
] as const) {
  it(`the age of ${ms} ms is ${text}`, () => {
    assert.equal(age(ms), text);
  });
}
