import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ruleStatus } from '../../../test/support/rule-status.ts';
import type { ClaimMode } from '../../copy/model/claim.ts';
import type { Explanation } from '../../../scripts/reports/schemas.ts';
import { explanationText, type Findings, judge } from './report.ts';

const NONE: Findings = {
  object: { kind: 'Secret', namespace: 'a', name: 'x' },
  exists: true,
  markedBy: undefined,
  claims: [],
  owner: null,
  source: null,
  next: null,
  rule: null,
  sourceOf: [],
  others: [],
};
const claim = (rule: string, mode: ClaimMode) =>
  ({ rule, mode, state: 'synced', reason: 'Synced', message: '' }) as const;
const own = (rule: string) => claim(rule, 'own');
const fill = (rule: string) => claim(rule, 'fill');
const release = (rule: string) => claim(rule, 'release');
const RULE = ruleStatus({ system: 'mirrors', kind: 'SecretMirror', namespace: 'a', name: 'x' });
const isRule = { rule: RULE };
/** The fields of the findings that the test names show. */
const SHOWN = ['exists', 'markedBy', 'claims', 'rule', 'mode', 'sourceOf', 'isPartial', 'isRuleKind', 'unreadMaker'];
const isSource = { sourceOf: [{ rule: 'r', copies: 1 }] };

describe('the verdict', () => {
  const cases: readonly (readonly [Partial<Findings>, string])[] = [
    [{ markedBy: 'a', claims: [own('a')] }, 'copy'],
    [{ markedBy: 'a', claims: [own('b'), own('a')] }, 'copy'],
    [{ markedBy: 'a', claims: [own('a'), fill('c')], ...isRule }, 'copy'],
    [{ markedBy: 'a', claims: [release('a')] }, 'copy'],
    [{ claims: [own('a')] }, 'conflict'],
    [{ claims: [release('a')] }, 'unrelated'],
    [{ exists: false, claims: [release('a')] }, 'absent'],
    [{ markedBy: 'b', claims: [own('a')] }, 'conflict'],
    [{ markedBy: 'a' }, 'orphan'],
    [{ markedBy: 'a', ...isSource, ...isRule }, 'orphan'],
    [{ claims: [fill('a')], ...isRule }, 'filled'],
    [{ ...isRule, ...isSource }, 'rule'],
    [{ ...isSource }, 'source'],
    [{}, 'unrelated'],
    [{ exists: false, claims: [own('a')] }, 'missing'],
    [{ exists: false }, 'absent'],
    [{ exists: false, isPartial: true }, 'unknown'],
    [{ exists: false, isPartial: true, isRuleKind: true }, 'absent'],
    [{ exists: false, isPartial: true, claims: [own('a')] }, 'missing'],
    [{ unreadMaker: 'reflector' }, 'unknown'],
    [{ unreadMaker: 'reflector', ...isSource }, 'unknown'],
    [{ unreadMaker: 'reflector', claims: [own('a')] }, 'conflict'],
    // No rule makes an object that it only fills. So an object that does not exist is absent, not missing.
    [{ exists: false, claims: [fill('a')] }, 'absent'],
  ];
  for (const [findings, expected] of cases) {
    it(`for ${JSON.stringify(findings, SHOWN)}, the verdict of explain is ${expected}`, () => {
      assert.equal(judge({ ...NONE, ...findings }).verdict, expected);
    });
  }
});

describe('the summary', () => {
  const told = { ...NONE, owner: 'SecretMirror b/m', source: 'secret b/x' };
  const summaryOf = (findings: Findings): string => judge(findings).summary;

  it('if a copy is missing, the summary of explain says what Keyferry will do next, or why it does nothing', () => {
    const missing = { ...told, exists: false, claims: [own(told.owner)] };
    assert.equal(
      summaryOf({ ...missing, next: { action: 'create', reason: 'copy of b/x' } }),
      'Secret a/x does not exist, although SecretMirror b/m asks for it as a copy of secret b/x: Keyferry will create it (copy of b/x).',
    );
    assert.match(summaryOf({ ...missing, next: { action: 'wait', reason: 'NoSecret: gone' } }), /: NoSecret: gone\.$/);
  });

  it('if an object is absent, the summary of explain mentions rules that make objects with its name elsewhere', () => {
    const absent = { ...NONE, exists: false };
    assert.equal(summaryOf(absent), 'Secret a/x does not exist, and no rule makes it.');
    assert.equal(summaryOf({ ...absent, isRuleKind: true }), 'Secret a/x does not exist.');
    const other = { system: 's', rule: 'r', source: null, destinations: [], why: '' };
    assert.match(summaryOf({ ...absent, others: [other] }), /, though there are rules for this name \(below\)\.$/);
    assert.equal(
      summaryOf({ ...absent, others: [other], isRefused: true }),
      'Secret a/x does not exist, because the rule that asks for it does not copy there (below).',
    );
    assert.equal(
      summaryOf({ ...absent, lacksNamespace: true }),
      'Secret a/x does not exist, because its namespace does not exist.',
    );
  });

  it('the summary of explain says of no rule that was not read that there is none, and of no label that there is none', () => {
    const isPartial = true;
    assert.equal(
      summaryOf({ ...NONE, exists: false, isPartial }),
      'Secret a/x does not exist, and no rule that was read makes it.',
    );
    const unrelated = 'Secret a/x is neither a copy nor a rule: no rule';
    for (const [findings, why] of [
      [{}, 'claims it, and it has no mark of Keyferry'],
      [{ isPartial }, 'that was read claims it, and it has no mark of Keyferry'],
      [{ isLabelled: true }, 'claims it, although it has the label keyferry.dev/copy'],
    ] as const)
      assert.equal(summaryOf({ ...NONE, ...findings }), `${unrelated} ${why}.`);
    assert.equal(
      summaryOf({ ...NONE, isLabelled: true, unreadMaker: 'reflector' }),
      'Secret a/x has the mark of reflector, which this command does not read (--controllers).',
    );
  });

  it('if an object asks to be filled and is not, the summary of explain says why', () => {
    const texts = (['synced', 'pending', 'error'] as const).map((state) =>
      summaryOf({ ...told, claims: [{ ...fill(told.owner), state, reason: 'Denied', message: 'not allowed' }] }),
    );
    const isFilled = 'Secret a/x belongs to its user, and SecretMirror b/m fills its data from secret b/x.';
    assert.deepEqual(texts, [
      isFilled,
      isFilled,
      'Secret a/x belongs to its user, and asks to be filled from secret b/x, but is not: Denied: not allowed.',
    ]);
  });

  it('if a rule has an object as its source but makes no copy, the summary of explain says so', () => {
    const summary = (copies: number) => summaryOf({ ...NONE, sourceOf: [{ rule: 'r', copies }] });
    assert.equal(summary(1), 'Secret a/x is no copy. It is the source of r.');
    assert.equal(summary(0), 'Secret a/x is no copy, and none is made of it, although a rule asks for one: r.');
  });

  it('if the command has flags for its settings, the summary of explain says so, because the operator may have others', () => {
    const flags = ['--excluded-namespaces=a', '--excluded-namespaces=b', '--require-consent=true'];
    assert.equal(
      summaryOf({ ...NONE, exists: false, flags }),
      'With --excluded-namespaces, --require-consent, Secret a/x does not exist, and no rule makes it.',
    );
  });

  it('if the source of a copy is unknown, the summary of explain calls it "its source"', () => {
    assert.equal(
      summaryOf({ ...told, source: null, markedBy: told.owner, claims: [own(told.owner)] }),
      'Secret a/x is a copy of its source, which SecretMirror b/m makes.',
    );
  });
});

describe('the text', () => {
  const SENTENCE = 'Secret a/x is not allowed to have it';
  const denied = { state: 'error', reason: 'Denied', message: SENTENCE } as const;
  const explanation: Explanation = {
    ...NONE,
    apiVersion: 'keyferry.dev/v1',
    kind: 'Explanation',
    cluster: '',
    object: { ...NONE.object, exists: true, created: null, deleting: false },
    verdict: 'filled',
    summary: `Secret a/x belongs to its user, and is not filled: Denied: ${SENTENCE}.`,
    owner: 'Secret a/x',
    next: { action: 'fail', reason: `Denied: ${SENTENCE}` },
    rule: { ...RULE, ...denied, state: 'Error', ready: false, failing: [{ ...NONE.object, ...denied }] },
    heldVersion: null,
    sourceVersion: null,
    lastWritten: null,
    writers: [],
    claims: [{ ...denied, system: 's', rule: 'Secret a/x', source: null, destinations: [] }],
    usedBy: [],
    usersUnread: [],
    notes: [`Denied: ${SENTENCE}`, 'another note'],
  };
  const textOf = (changed: Partial<Explanation>, columns?: number): string => {
    return explanationText({ ...explanation, ...changed }, { paint: (text) => text, columns });
  };

  it('the text of explain has each message once, and the reason where it is needed', () => {
    const text = textOf({});
    assert.equal(text.split(SENTENCE).length, 2, text);
    assert.match(text, /^Next +fail$/m);
    assert.match(text, /^Rule +Error, Denied$/m);
    assert.match(text, /^Secret a\/x +none +error +Denied$/m);
    assert.match(text, /^another note$/m);
  });

  it('the row of a rule that does not claim the object says why, also if the summary does', () => {
    const other = { system: 's', rule: 'r', source: null, destinations: ['a'], why: SENTENCE };
    assert.match(textOf({ others: [other] }), new RegExp(`^r +a +${SENTENCE}$`, 'm'));
  });

  it('at 80 columns, no sentence of the text is longer', () => {
    const long = 'word '.repeat(60).trim();
    const lines = textOf({ summary: `${long}.`, notes: [long], rule: null, next: null, claims: [] }, 80).split('\n');
    assert.deepEqual(
      lines.filter((line) => line.length > 80),
      [],
    );
  });

  it('what follows from settings of the command stands above what is the case now, and the settings once', () => {
    const settings = ['--require-consent=true'];
    const changed = {
      ...explanation,
      object: { ...explanation.object, created: 'DAY' },
      notes: [`Settings: ${settings.join(' ')}`],
    };
    const text = explanationText(changed, { paint: (part) => part }, settings);
    assert.match(text, /^Next +fail$[^]*^Above is what follows from --require-consent=true\. [^]*^Created +DAY$/m);
    assert.equal(text.split(settings.join(' ')).length, 2, text);
    assert.doesNotMatch(textOf({}), /Above is what follows/);
  });

  it('owner, source and state of the only claim are in the summary, and not repeated in facts and a table', () => {
    const summary = 'Secret a/x is a copy of secret b/x, which SecretMirror b/m makes.';
    const claimant = { system: 's', rule: 'SecretMirror b/m', source: 'secret b/x', destinations: ['a'] };
    const alone = { ...claimant, state: 'synced', reason: 'Synced', message: '' } as const;
    const told = { verdict: 'copy', summary, owner: alone.rule, source: alone.source, next: null, rule: null } as const;
    const text = textOf({ ...told, claims: [alone] });
    assert.match(text, /^Copied to +a$/m);
    for (const once of [alone.rule, alone.source]) assert.equal(text.split(once).length, 2, text);
    assert.match(textOf({ ...told, claims: [alone, { ...alone, rule: 'Secret c/x' }] }), /^CLAIMED BY/m);
  });

  it('the text of explain has every message that the summary lacks', () => {
    const text = textOf({ summary: 'Secret a/x is a rule.', next: null });
    assert.match(text, new RegExp(`^Rule +Error, Denied: ${SENTENCE}$`, 'm'));
    assert.equal(text.split(SENTENCE).length, 2, text);
    assert.match(textOf({ summary: '', rule: null, next: null }), new RegExp(`error +Denied: ${SENTENCE}$`, 'm'));
  });
});
