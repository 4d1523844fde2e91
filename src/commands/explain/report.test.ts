import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Findings, summaryOf, verdictOf } from './report.ts';

const NONE: Findings = { exists: true, markedBy: undefined, claims: [], isRule: false, isSource: false };
const own = (rule: string) => ({ rule, mode: 'own' }) as const;
const fill = (rule: string) => ({ rule, mode: 'fill' }) as const;
const release = (rule: string) => ({ rule, mode: 'release' }) as const;

describe('the verdict', () => {
  const cases: readonly (readonly [Partial<Findings>, string])[] = [
    [{ markedBy: 'a', claims: [own('a')] }, 'copy'],
    [{ markedBy: 'a', claims: [own('b'), own('a')] }, 'copy'],
    [{ markedBy: 'a', claims: [own('a'), fill('c')], isRule: true }, 'copy'],
    [{ markedBy: 'a', claims: [release('a')] }, 'copy'],
    [{ claims: [own('a')] }, 'conflict'],
    [{ claims: [release('a')] }, 'unrelated'],
    [{ exists: false, claims: [release('a')] }, 'absent'],
    [{ markedBy: 'b', claims: [own('a')] }, 'conflict'],
    [{ markedBy: 'a' }, 'orphan'],
    [{ markedBy: 'a', isSource: true, isRule: true }, 'orphan'],
    [{ claims: [fill('a')], isRule: true }, 'filled'],
    [{ isRule: true, isSource: true }, 'rule'],
    [{ isSource: true }, 'source'],
    [{}, 'unrelated'],
    [{ exists: false, claims: [own('a')] }, 'missing'],
    [{ exists: false }, 'absent'],
    // An object that does not exist cannot be filled.
    [{ exists: false, claims: [fill('a')] }, 'absent'],
    [{ exists: undefined }, 'unknown'],
    [{ exists: undefined, claims: [own('a')] }, 'unknown'],
    [{ exists: undefined, isRule: true }, 'rule'],
  ];
  for (const [findings, expected] of cases) {
    it(`the verdict on ${JSON.stringify(findings)} is ${expected}`, () => {
      assert.equal(verdictOf({ ...NONE, ...findings }), expected);
    });
  }
});

describe('the summary', () => {
  const told = {
    object: { kind: 'Secret', namespace: 'a', name: 'x' },
    owner: 'SecretMirror b/m',
    source: 'secret b/x',
    next: null,
    rule: null,
    sourceOf: [],
    others: [],
    claims: [],
  };

  it('the summary of a missing copy has the action, or why there is none', () => {
    const missing = { ...told, verdict: 'missing' } as const;
    assert.equal(
      summaryOf({ ...missing, next: { action: 'create', reason: 'copy of b/x' } }),
      'Secret a/x does not exist, although SecretMirror b/m asks for it as a copy of secret b/x: Keyferry will create it (copy of b/x).',
    );
    assert.match(summaryOf({ ...missing, next: { action: 'wait', reason: 'NoSecret: gone' } }), /: NoSecret: gone\.$/);
  });

  it('the summary of an absent object points to rules that make others', () => {
    const absent = { ...told, owner: null, source: null, verdict: 'absent' } as const;
    assert.equal(summaryOf(absent), 'Secret a/x does not exist, and no rule asks for it.');
    assert.equal(summaryOf({ ...absent, isRuleKind: true }), 'Secret a/x does not exist.');
    const other = { system: 's', rule: 'r', source: null, destinations: [], why: '' };
    assert.match(summaryOf({ ...absent, others: [other] }), /, though rules make others of this name \(below\)\.$/);
    assert.equal(
      summaryOf({ ...absent, others: [other], isRefused: true }),
      'Secret a/x does not exist, because the rule that asks for it does not copy there (below).',
    );
    assert.equal(
      summaryOf({ ...absent, lacksNamespace: true }),
      'Secret a/x does not exist, because its namespace does not exist.',
    );
  });

  it('the summary of an object that is not filled says so, with the reason', () => {
    const claim = { system: 's', rule: told.owner, source: told.source, destinations: [] };
    const filled = { ...told, verdict: 'filled' } as const;
    const texts = (['synced', 'pending', 'error'] as const).map((state) =>
      summaryOf({ ...filled, claims: [{ ...claim, state, reason: 'Denied', message: 'not allowed' }] }),
    );
    const isFilled = 'Secret a/x belongs to its user, and SecretMirror b/m fills its data from secret b/x.';
    assert.deepEqual(texts, [
      isFilled,
      isFilled,
      'Secret a/x belongs to its user, and asks to be filled from secret b/x, but is not: Denied: not allowed.',
    ]);
  });

  it('the summary of a source without a copy does not sound as if one existed', () => {
    const source = { ...told, owner: null, source: null, verdict: 'source' } as const;
    const summary = (copies: number) => summaryOf({ ...source, sourceOf: [{ rule: 'r', copies }] });
    assert.equal(summary(1), 'Secret a/x is no copy. It is the source of r.');
    assert.equal(summary(0), 'Secret a/x is no copy, and none is made of it, although a rule asks for one: r.');
  });

  it('the summary of a copy whose source is not known says so', () => {
    assert.equal(
      summaryOf({ ...told, verdict: 'copy', source: null }),
      'Secret a/x is a copy of its source, which SecretMirror b/m makes.',
    );
  });
});
