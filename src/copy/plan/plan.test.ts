/** The plan for a target: a table of facts and plans, and properties for any facts. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import * as fc from 'fast-check';

import { userCause } from '../model/cause.ts';
import { observedObject } from '../../../test/support/observed-object.ts';
import {
  type Claim,
  type ClaimMode,
  type DesiredState,
  type Shape,
  type SourceView,
  PENDING,
  type DesiredObject,
} from '../model/claim.ts';
import type { Entry } from '../book/claim-book.ts';
import { type Observed, ownersText, PLACE_ANNOTATION } from '../model/observed.ts';
import type { Facts, OrphanAction, Plan } from './facts.ts';
import type { Fingerprint } from '../model/content.ts';
import { OVERWRITTEN_MARK } from './plan-write.ts';
import { plan, KEPT_AS_SOURCE } from './plan.ts';
import { winnerOf } from './contest.ts';
import { asKey, asKeys } from '../../../test/support/keys.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';

const TARGET: ResourceKey = asKey('c:Secret/team/db');
const OWNER = 'owner';
const VERSION = 'version';
const FINGERPRINT: Fingerprint = { digest: 'd', keys: 'k', type: 'Opaque' };
const PRESENT: SourceView = { state: 'present', version: '7', labels: {}, annotations: {} };
const MISSING: SourceView = { state: 'missing', ...userCause('NoSecret', 'not there') };

/** Rules are named by their age: `mirrors:a` is older than `mirrors:b`, and than `push:b`. */
class TestShape implements Shape {
  readonly id: string;
  readonly #owner: string;
  readonly #mode: ClaimMode;
  readonly #more: Partial<DesiredObject>;

  constructor(owner: string, mode: ClaimMode, more: Partial<DesiredObject> = {}) {
    this.id = `${owner} ${mode}`;
    this.#owner = owner;
    this.#mode = mode;
    this.#more = more;
  }

  desiredState(source: SourceView): DesiredState {
    if (source.state === 'failed') return { kind: 'fail', ...userCause(source.reason, source.message) };
    if (source.state === 'unknown') return { kind: 'wait', for: 'watch', ...userCause('Pending', 'not known') };
    if (source.state === 'missing') return { kind: 'wait', for: 'source', ...userCause('NoSecret', 'not there') };
    const own = this.#mode === 'own';
    return {
      kind: 'be',
      labels: {},
      annotations: own ? { [OWNER]: this.#owner } : {},
      bookkeeping: { [VERSION]: source.version },
      data: 'source',
      ...(own ? {} : { type: '' }),
      ...this.#more,
    };
  }

  heldVersion({ annotations }: Observed): string | undefined {
    return annotations[VERSION];
  }
}

const entry = (key: RuleKey, mode: ClaimMode = 'own', more: Partial<DesiredObject> = {}): Entry => {
  const owner = { key, title: `the rule ${key}`, rank: key.slice(key.indexOf(':') + 1) };
  const source = mode === 'release' ? undefined : asKey<ResourceKey>(`c:Secret/home/${key}`);
  const claim = { owner, mode, source, shape: new TestShape(key, mode, more) };
  return { target: TARGET, claim, outcome: PENDING };
};

const object = (annotations: Readonly<Record<string, string>> = {}, more: Partial<Observed> = {}): Observed =>
  observedObject({ annotations, ...more });

/** A copy of the rule with the version of its source, without changes by other clients. */
const copyOf = (rule: string, more: Partial<Observed> = {}): Observed =>
  object({ [OWNER]: rule, [PLACE_ANNOTATION]: 'team/db', [VERSION]: '7' }, { ownKeys: 'k', ...more });

const facts = (given: Partial<Facts>): Facts => ({
  target: TARGET,
  entries: [],
  presence: given.observed === undefined ? 'absent' : 'present',
  observed: undefined,
  markedBy:
    given.observed?.annotations[PLACE_ANNOTATION] === 'team/db' ? asKey(given.observed.annotations[OWNER]) : undefined,
  usedBy: undefined,
  goingAway: false,
  viewOf: () => PRESENT,
  fingerprintOf: () => FINGERPRINT,
  held: undefined,
  type: 'Opaque',
  orphanAction: undefined,
  cannotUpdate: false,
  now: 0,
  ...given,
});

/** The plan as text: `update mirrors:a with data`. */
function textOf(decision: Plan): string {
  switch (decision.do) {
    case 'create':
    case 'update':
    case 'replace':
      return `${decision.do} ${decision.claim.owner.key}${decision.withData ? ' with data' : ''}`;
    case 'need':
      return `need ${decision.fact}`;
    case 'wait':
    case 'fail':
      return `${decision.do} ${decision.reason}`;
    case 'nothing':
    case 'delete':
    case 'conflict':
      return decision.do;
    default:
      return decision satisfies never;
  }
}

const [A, B, PUSH] = [entry(asKey('mirrors:a')), entry(asKey('mirrors:b')), entry(asKey('push:b'))];
const FIXED = entry(asKey('mirrors:a'), 'own', { immutable: true });
const LOOSE = entry(asKey('mirrors:a'), 'own', { immutable: false });
const TOKEN = 'kubernetes.io/service-account-token';
const OWNED = { apiVersion: 'v1', kind: 'ConfigMap', name: 'parent', uid: 'p' };
const LABELLED = entry(asKey('mirrors:a'), 'own', { bookkeepingLabels: { 'keyferry.dev/copy': 'x' } });
const HAS_OWNER = entry(asKey('mirrors:a'), 'own', { ownerReferences: [OWNED] });
const [RELEASING, PULL] = [entry(asKey('mirrors:a'), 'release'), entry(asKey('push:z'), 'fill')];
const foreign = object();
const overwritten = copyOf('mirrors:a', {
  annotations: { ...copyOf('mirrors:a').annotations, [OVERWRITTEN_MARK]: 'true' },
});
const stale = {
  fingerprintOf: () => ({ ...FINGERPRINT, digest: 'new' }),
  held: { version: '5', fingerprint: FINGERPRINT },
} as const;
const current = { held: { version: '5', fingerprint: FINGERPRINT } } as const;
const without = (...rules: readonly string[]): Pick<Facts, 'viewOf'> => ({
  viewOf: ({ owner }: Claim) => (rules.includes(owner.key) ? MISSING : PRESENT),
});

const TABLE: Readonly<Record<string, readonly (readonly [string, Partial<Facts>, string])[]>> = {
  'one rule': [
    ['absent', { entries: [A] }, 'create mirrors:a with data'],
    ['perhaps present', { entries: [A], presence: 'unknown' }, 'create mirrors:a with data'],
    ['absent, like its source', { entries: [A], viewOf: () => MISSING }, 'wait NoSecret'],
    ['absent, its source not read', { entries: [A], fingerprintOf: () => undefined }, 'need source'],
    ['absent, with the deletion of its old copy not confirmed', { entries: [A], goingAway: true }, 'wait Pending'],
    ['its copy, in the desired state', { entries: [A], observed: copyOf('mirrors:a') }, 'nothing'],
    [
      'its copy, without the label that comes with any write',
      { entries: [LABELLED], observed: copyOf('mirrors:a') },
      'nothing',
    ],
    ['its copy, overwritten by the server, and not read', { entries: [A], observed: overwritten }, 'need target'],
    [
      'its copy, of an older version',
      { entries: [A], observed: copyOf('mirrors:a'), ...stale },
      'update mirrors:a with data',
    ],
    [
      'its copy, changed by another client',
      { entries: [A], observed: copyOf('mirrors:a', { ownKeys: undefined }) },
      'need target',
    ],
    ['its copy, keys removed', { entries: [A], observed: copyOf('mirrors:a', { ownKeys: '' }) }, 'need target'],
    [
      'its copy, without its source',
      { entries: [A], observed: copyOf('mirrors:a'), viewOf: () => MISSING },
      'wait NoSecret',
    ],
    [
      'its copy, being deleted',
      { entries: [A], observed: copyOf('mirrors:a', { deleting: true }) },
      'wait Terminating',
    ],
    [
      'its copy, cannot be updated',
      { entries: [A], observed: copyOf('mirrors:a'), ...stale, cannotUpdate: true },
      'replace mirrors:a with data',
    ],
    [
      'its copy, of another type than the source',
      { entries: [A], observed: copyOf('mirrors:a'), ...stale, type: 'kubernetes.io/tls' },
      'replace mirrors:a with data',
    ],
    [
      'its copy without a place',
      {
        entries: [A],
        observed: object({ [OWNER]: 'mirrors:a', [VERSION]: '7' }, { ownKeys: 'k' }),
        markedBy: asKey('mirrors:a'),
      },
      'update mirrors:a',
    ],
    ['an object of a user', { entries: [A], observed: foreign }, 'conflict'],
    ['an object of a user, cannot be updated', { entries: [A], observed: foreign, cannotUpdate: true }, 'conflict'],
    ['a clone', { entries: [A], observed: object({ [OWNER]: 'mirrors:a', [PLACE_ANNOTATION]: 'x/db' }) }, 'conflict'],
    ['a source', { entries: [A], observed: foreign, usedBy: 'the rule' }, 'conflict'],
    ['another rule’s copy', { entries: [A], observed: copyOf('mirrors:x') }, 'need owner'],
    [
      'an orphan of another rule',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'delete', ...stale },
      'update mirrors:a with data',
    ],
    // The version on it is that of the source of the other rule.
    [
      'an orphan of another rule that no other client has changed',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'delete' },
      'need target',
    ],
    [
      'an orphan of another rule, of another type',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'delete', ...stale, type: 'kubernetes.io/tls' },
      'replace mirrors:a with data',
    ],
    [
      'an orphan of another rule, without a source',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'delete', viewOf: () => MISSING },
      'delete',
    ],
    [
      'an orphan of another rule, with a source that is not known yet',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'delete', viewOf: () => ({ state: 'unknown' }) },
      'wait Pending',
    ],
    [
      'an orphan of another rule, after a failed takeover',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'delete', ...stale, takeoverFailed: true },
      'delete',
    ],
    [
      'another rule’s copy, with the policy to keep it',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'keep' },
      'conflict',
    ],
    [
      'an orphan of another rule, and a source',
      {
        entries: [A],
        observed: copyOf('mirrors:x', { ownKeys: undefined }),
        orphanAction: 'delete',
        usedBy: 'the rule',
        ...stale,
      },
      'update mirrors:a with data',
    ],
    [
      'an orphan of another rule, a source, and cannot be updated',
      {
        entries: [A],
        observed: copyOf('mirrors:x'),
        orphanAction: 'delete',
        usedBy: 'the rule',
        ...stale,
        cannotUpdate: true,
      },
      'conflict',
    ],
    [
      'an orphan of another rule, a source, and of another type',
      {
        entries: [A],
        observed: copyOf('mirrors:x'),
        orphanAction: 'delete',
        usedBy: 'the rule',
        ...stale,
        type: 'kubernetes.io/tls',
      },
      'conflict',
    ],
    [
      'an orphan of another controller, and a source',
      { entries: [A], observed: copyOf('push:x'), orphanAction: 'delete', usedBy: 'the rule' },
      'conflict',
    ],
    [
      'a type that is never copied',
      { entries: [A], fingerprintOf: () => ({ ...FINGERPRINT, type: 'bootstrap.kubernetes.io/token' }) },
      'fail RefusedType',
    ],
  ],
  'a rule that sets immutable': [
    ['absent', { entries: [FIXED] }, 'create mirrors:a with data'],
    ['as desired', { entries: [FIXED], observed: copyOf('mirrors:a'), ...current, immutable: true }, 'nothing'],
    ['not known', { entries: [FIXED], observed: copyOf('mirrors:a'), ...current }, 'need target'],
    [
      'not immutable yet',
      { entries: [FIXED], observed: copyOf('mirrors:a'), ...current, immutable: false },
      'update mirrors:a',
    ],
    ['other data', { entries: [FIXED], observed: copyOf('mirrors:a'), ...stale, immutable: true }, 'fail Immutable'],
    [
      'another type',
      { entries: [FIXED], observed: copyOf('mirrors:a'), ...current, immutable: true, type: 'other' },
      'fail Immutable',
    ],
    [
      'another label, and read',
      {
        entries: [FIXED],
        observed: object({ [OWNER]: 'mirrors:a', [VERSION]: '7' }),
        markedBy: asKey('mirrors:a'),
        ...current,
        immutable: true,
        cannotUpdate: true,
      },
      'update mirrors:a',
    ],
    [
      'no longer immutable',
      { entries: [LOOSE], observed: copyOf('mirrors:a'), ...current, immutable: true },
      'replace mirrors:a with data',
    ],
    [
      'a custom resource with other data',
      { entries: [FIXED], observed: copyOf('mirrors:a'), ...stale, immutable: true, isCustom: true },
      'update mirrors:a with data',
    ],
    [
      'a custom resource, no longer immutable',
      { entries: [LOOSE], observed: copyOf('mirrors:a'), ...current, immutable: true, isCustom: true },
      'update mirrors:a',
    ],
  ],
  'a type': [
    [
      'of a custom resource changes in place',
      { entries: [A], observed: copyOf('mirrors:a'), ...current, type: 'other', isCustom: true },
      'update mirrors:a with data',
    ],
    [
      'of a custom resource may be any',
      { entries: [A], fingerprintOf: () => ({ ...FINGERPRINT, type: TOKEN }), isCustom: true },
      'create mirrors:a with data',
    ],
    [
      'is another one in the copy',
      {
        entries: [entry(asKey('mirrors:a'), 'own', { type: 'Opaque' })],
        fingerprintOf: () => ({ ...FINGERPRINT, type: TOKEN }),
      },
      'create mirrors:a with data',
    ],
    [
      'is another one in the copy, which is as desired',
      {
        entries: [entry(asKey('mirrors:a'), 'own', { type: 'Opaque' })],
        observed: copyOf('mirrors:a'),
        ...current,
        fingerprintOf: () => ({ ...FINGERPRINT, type: TOKEN }),
      },
      'nothing',
    ],
    [
      'of a filling rule’s source is refused',
      { entries: [PULL], observed: foreign, ...stale, fingerprintOf: () => ({ ...FINGERPRINT, type: TOKEN }) },
      'fail RefusedType',
    ],
  ],
  'owner references': [
    [
      'as desired',
      { entries: [HAS_OWNER], observed: copyOf('mirrors:a', { owners: ownersText([OWNED]) }), ...current },
      'nothing',
    ],
    ['missing', { entries: [HAS_OWNER], observed: copyOf('mirrors:a'), ...current }, 'update mirrors:a'],
    [
      'of others',
      {
        entries: [HAS_OWNER],
        observed: copyOf('mirrors:a', { owners: ownersText([OWNED, { ...OWNED, uid: 'q' }]) }),
        ...current,
      },
      'update mirrors:a',
    ],
    [
      'of others, where the rule sets none',
      { entries: [A], observed: copyOf('mirrors:a', { owners: ownersText([OWNED]) }) },
      'nothing',
    ],
  ],
  'several rules': [
    ['absent', { entries: [B, A] }, 'create mirrors:a with data'],
    [
      'absent, the older without its source',
      { entries: [A, B], ...without('mirrors:a') },
      'create mirrors:b with data',
    ],
    ['absent, none with its source', { entries: [B, A], viewOf: () => MISSING }, 'wait NoSecret'],
    ['the younger one’s copy', { entries: [A, B], observed: copyOf('mirrors:b') }, 'nothing'],
    [
      'the younger one’s copy, without its source',
      { entries: [A, B], observed: copyOf('mirrors:b'), ...without('mirrors:b') },
      'wait NoSecret',
    ],
    [
      'the older one’s copy, of an older version',
      { entries: [B, A], observed: copyOf('mirrors:a'), ...stale },
      'update mirrors:a with data',
    ],
    ['the younger one’s copy, of another controller', { entries: [A, PUSH], observed: copyOf('push:b') }, 'nothing'],
    ['an object of a user', { entries: [A, B], observed: foreign }, 'conflict'],
  ],
  'a rule that is being deleted': [
    ['absent', { entries: [RELEASING] }, 'nothing'],
    ['perhaps present', { entries: [RELEASING], presence: 'unknown' }, 'need target'],
    ['its copy', { entries: [RELEASING], observed: copyOf('mirrors:a') }, 'delete'],
    [
      'its copy, being deleted',
      { entries: [RELEASING], observed: copyOf('mirrors:a', { deleting: true }) },
      'wait Terminating',
    ],
    ['its copy, and a source', { entries: [RELEASING], observed: copyOf('mirrors:a'), usedBy: 'the rule' }, 'nothing'],
    ['another rule’s copy', { entries: [RELEASING], observed: copyOf('mirrors:x'), orphanAction: 'delete' }, 'nothing'],
    ['an object of a user', { entries: [RELEASING], observed: foreign }, 'nothing'],
    [
      'its copy, claimed by another rule',
      { entries: [RELEASING, B], observed: copyOf('mirrors:a'), ...stale },
      'update mirrors:b with data',
    ],
    [
      'its copy, claimed by another rule without a source',
      { entries: [RELEASING, B], observed: copyOf('mirrors:a'), viewOf: () => MISSING },
      'delete',
    ],
    [
      'its copy, after a failed takeover by another rule',
      { entries: [RELEASING, B], observed: copyOf('mirrors:a'), ...stale, takeoverFailed: true },
      'delete',
    ],
    [
      'its copy, claimed by another controller',
      { entries: [RELEASING, PUSH], observed: copyOf('mirrors:a') },
      'replace push:b with data',
    ],
    [
      'its copy, a source, and claimed by another controller',
      { entries: [RELEASING, PUSH], observed: copyOf('mirrors:a'), usedBy: 'the rule' },
      'conflict',
    ],
    [
      'its copy, a source, cannot be updated, and claimed by another rule',
      { entries: [RELEASING, B], observed: copyOf('mirrors:a'), ...stale, cannotUpdate: true, usedBy: 'the rule' },
      'conflict',
    ],
    ['the copy of another rule that claims it', { entries: [RELEASING, B], observed: copyOf('mirrors:b') }, 'nothing'],
  ],
  'no rule': [
    ['absent', {}, 'nothing'],
    ['a copy', { observed: copyOf('mirrors:x') }, 'need owner'],
    ['a copy whose rule is gone', { observed: copyOf('mirrors:x'), orphanAction: 'delete' }, 'delete'],
    ['a copy with the policy to keep it', { observed: copyOf('mirrors:x'), orphanAction: 'keep' }, 'nothing'],
    [
      'a copy that is being deleted',
      { observed: copyOf('mirrors:x', { deleting: true }), orphanAction: 'delete' },
      'nothing',
    ],
    [
      'a copy that we are deleting',
      { observed: copyOf('mirrors:x'), goingAway: true, orphanAction: 'delete' },
      'nothing',
    ],
    [
      'a copy whose rule is gone, and a source',
      { observed: copyOf('mirrors:x'), orphanAction: 'delete', usedBy: 'the rule' },
      'nothing',
    ],
    ['an object of a user', { observed: foreign, orphanAction: 'delete' }, 'nothing'],
  ],
  'a filling rule': [
    ['absent', { entries: [PULL] }, 'nothing'],
    ['a user’s object', { entries: [PULL], observed: foreign, ...stale }, 'update push:z with data'],
    [
      'a user’s object, cannot be updated',
      { entries: [PULL], observed: foreign, ...stale, cannotUpdate: true },
      'fail Immutable',
    ],
    [
      'a user’s object, being deleted',
      { entries: [PULL], observed: object({}, { deleting: true }), ...stale },
      'nothing',
    ],
    [
      'a user’s object that a rule claims',
      { entries: [A, PULL], observed: foreign, ...stale },
      'update push:z with data',
    ],
    ['the copy of another controller', { entries: [A, PULL], observed: copyOf('mirrors:a') }, 'nothing'],
  ],
};

for (const [rules, rows] of Object.entries(TABLE)) {
  describe(`a target and ${rules}`, () => {
    for (const [title, given, expected] of rows) {
      it(`${title}: ${expected}`, () => {
        assert.equal(textOf(plan(facts(given))), expected);
      });
    }
  });
}

describe('the plan for a target without metadata (an entry of Vault)', () => {
  const held = { version: '1', fingerprint: FINGERPRINT };
  const planFor = (given: Partial<Facts>): Plan =>
    plan(facts({ unmarked: { holder: undefined }, presence: 'unknown', entries: [A], ...given }));

  it('is to read the content of the source first', () => {
    assert.equal(textOf(planFor({ fingerprintOf: () => undefined })), 'need source');
  });

  it('is to write what this process has not written, without reading the target', () => {
    assert.equal(planFor({}).do, 'update');
    const other = { ...held, fingerprint: { ...FINGERPRINT, digest: 'other' } };
    assert.equal(planFor({ held: other }).do, 'update');
  });

  it('is to look whether the target still has what this process wrote, and then nothing', () => {
    assert.deepEqual(planFor({ held }), { do: 'need', fact: 'target' });
    assert.deepEqual(planFor({ held, presence: 'present' }), { do: 'nothing' });
    assert.equal(planFor({ presence: 'present' }).do, 'update');
  });

  it('is to wait while the source does not exist or is empty', () => {
    const missing = planFor({ viewOf: () => MISSING });
    assert.ok(missing.do === 'wait' && missing.for === 'source');
    const empty = planFor({ fingerprintOf: () => ({ ...FINGERPRINT, keys: '' }) });
    assert.ok(empty.do === 'wait' && empty.for === 'content' && empty.reason === 'NoData');
  });

  it('is for the rule that holds the target, else for the oldest', () => {
    const entries = [A, B];
    const by = (holder: string | undefined): string | undefined => {
      const markedBy: RuleKey | undefined = holder === undefined ? undefined : asKey(holder);
      const decision = planFor({ entries, markedBy, unmarked: { holder: markedBy } });
      return 'claim' in decision ? decision.claim.owner.key : undefined;
    };
    assert.deepEqual([by(undefined), by('mirrors:b')], ['mirrors:a', 'mirrors:b']);
  });

  it('is nothing without a claim, whoever held the target: it is never deleted', () => {
    const markedBy: RuleKey = asKey('mirrors:gone');
    assert.equal(planFor({ entries: [], markedBy, unmarked: { holder: markedBy } }).do, 'nothing');
  });
});

describe('the message', () => {
  it('for a clone has the annotation with the other place', () => {
    const observed = object({ [OWNER]: 'mirrors:a', [PLACE_ANNOTATION]: 'x/db' });
    const decision = plan(facts({ entries: [A], observed }));
    assert.match(decision.do === 'conflict' ? decision.message : '', /cloned from a copy .*keyferry\.dev\/target/);
  });

  it('for a source has the rule that makes copies from it', () => {
    const decision = plan(facts({ entries: [A], observed: foreign, usedBy: 'SecretMirror x/y' }));
    assert.match(decision.do === 'conflict' ? decision.message : '', /is the source of SecretMirror x\/y/);
  });

  it('for a copy that stays after its rule is deleted has the reason', () => {
    const kept = { entries: [RELEASING], observed: copyOf('mirrors:a'), usedBy: 'the rule' };
    const decision = plan(facts(kept));
    assert.equal(decision.do === 'nothing' && decision.remarks?.release, KEPT_AS_SOURCE);
    const waiting = plan(facts({ ...kept, entries: [RELEASING, B], viewOf: () => MISSING }));
    assert.equal(waiting.do === 'wait' && waiting.remarks?.release, KEPT_AS_SOURCE);
  });

  it('for a filling of another controller’s copy is a conflict', () => {
    const decision = plan(facts({ entries: [A, PULL], observed: copyOf('mirrors:a') }));
    assert.equal(decision.do === 'nothing' && decision.remarks?.fill?.reason, 'Conflict');
  });
});

const RULES: readonly RuleKey[] = asKeys(['mirrors:a', 'mirrors:b', 'mirrors:c', 'push:a', 'push:b']);
const MODES: readonly ClaimMode[] = ['own', 'fill', 'release'];
const VIEWS: readonly SourceView[] = [
  PRESENT,
  MISSING,
  { state: 'unknown' },
  { state: 'failed', ...userCause('Denied', 'no') },
];
const FINGERPRINTS: readonly (Fingerprint | undefined)[] = [
  FINGERPRINT,
  { ...FINGERPRINT, digest: 'new' },
  { ...FINGERPRINT, type: 'kubernetes.io/tls' },
  { ...FINGERPRINT, type: 'kubernetes.io/service-account-token' },
  undefined,
];

/** Possible facts: one claim of a rule, marks that count or not, and any known or unknown facts. */
const shots = fc.record({
  claims: fc.uniqueArray(fc.record({ rule: fc.constantFrom(...RULES), mode: fc.constantFrom(...MODES) }), {
    selector: ({ rule }) => rule,
    maxLength: 4,
  }),
  there: fc.constantFrom('absent', 'unknown', 'present', 'deleting'),
  mark: fc.option(fc.constantFrom(...RULES, ...asKeys<RuleKey>(['mirrors:x', 'push:x'])), { nil: undefined }),
  place: fc.constantFrom('team/db', 'other/db', undefined),
  counts: fc.boolean(),
  usedBy: fc.constantFrom('the rule', undefined),
  goingAway: fc.boolean(),
  views: fc.array(fc.constantFrom(...VIEWS), { minLength: RULES.length, maxLength: RULES.length }),
  fingerprints: fc.array(fc.constantFrom(...FINGERPRINTS), { minLength: RULES.length, maxLength: RULES.length }),
  held: fc.constantFrom(FINGERPRINT, { ...FINGERPRINT, digest: 'new' }, undefined),
  type: fc.constantFrom('Opaque', 'kubernetes.io/tls', undefined),
  orphanAction: fc.constantFrom<OrphanAction | undefined>('delete', 'keep', undefined),
  cannotUpdate: fc.boolean(),
  takeoverFailed: fc.boolean(),
  ownKeys: fc.constantFrom('k', undefined),
});

type Shot = typeof shots extends fc.Arbitrary<infer T> ? T : never;

function factsOf({ claims, there, mark, place, counts, views, fingerprints, held, ownKeys, ...rest }: Shot): Facts {
  const annotations = {
    ...(mark === undefined ? {} : { [OWNER]: mark }),
    ...(place === undefined ? {} : { [PLACE_ANNOTATION]: place }),
  };
  const observed =
    there === 'present' || there === 'deleting'
      ? object(annotations, { deleting: there === 'deleting', ownKeys })
      : undefined;
  // As in `ownerByMark` (marks.test.ts).
  const marked = observed !== undefined && place !== 'other/db' && (counts || place === 'team/db');
  return {
    target: TARGET,
    entries: claims.map(({ rule, mode }) => entry(rule, mode)),
    presence: observed !== undefined ? 'present' : there === 'unknown' ? 'unknown' : 'absent',
    observed,
    markedBy: marked ? mark : undefined,
    viewOf: ({ owner }) => views[RULES.findIndex((rule) => rule === owner.key)] ?? MISSING,
    fingerprintOf: ({ owner }) => fingerprints[RULES.findIndex((rule) => rule === owner.key)],
    held: held === undefined ? undefined : { version: '5', fingerprint: held },
    now: 0,
    ...rest,
  };
}

const anyFacts = shots.map(factsOf);

const always = (what: string, holds: (given: Facts, decision: Plan) => void): void => {
  test(`for any facts: ${what}`, () => {
    fc.assert(
      fc.property(anyFacts, (given) => {
        holds(given, plan(given));
      }),
      { numRuns: 3000 },
    );
  });
};

const reconcilerOf = (rule: string | undefined): string | undefined => rule?.split(':')[0];

always('only objects with a mark that counts are deleted or replaced', ({ markedBy, observed }, decision) => {
  if (decision.do !== 'delete' && decision.do !== 'replace') return;
  assert.ok(observed !== undefined && markedBy !== undefined);
});

always('objects without a mark that counts are only filled', ({ markedBy, observed }, decision) => {
  if (decision.do !== 'update' || observed === undefined || markedBy !== undefined) return;
  assert.equal(decision.claim.mode, 'fill');
});

always('a copy is deleted only if its rule is being deleted, or was read and does not claim it', (given, decision) => {
  if (decision.do !== 'delete') return;
  const claims = given.entries.filter(({ claim }) => claim.owner.key === given.markedBy);
  assert.ok(!claims.some(({ claim }) => claim.mode === 'own'), 'its rule claims it');
  assert.ok(claims.some(({ claim }) => claim.mode === 'release') || given.orphanAction === 'delete');
});

always('a source is never deleted, and replaced only for its own rule', ({ usedBy, markedBy }, decision) => {
  if (usedBy === undefined) return;
  assert.notEqual(decision.do, 'delete');
  if (decision.do === 'replace') assert.equal(decision.claim.owner.key, markedBy);
});

always('an object that is being deleted is not changed', ({ observed, goingAway }, decision) => {
  if (observed?.deleting !== true && !goingAway) return;
  assert.ok(['nothing', 'wait', 'conflict', 'need'].includes(decision.do), decision.do);
});

always('an existing object is not created, and an absent one is not changed', ({ observed }, decision) => {
  if (decision.do === 'create') assert.equal(observed, undefined);
  if (['update', 'replace', 'delete'].includes(decision.do)) assert.notEqual(observed, undefined);
});

always('a rule that has the target keeps it as long as it claims it', ({ entries, markedBy }, decision) => {
  const holds = entries.some(({ claim }) => claim.mode === 'own' && claim.owner.key === markedBy);
  if (!holds || !('claim' in decision) || decision.claim.mode !== 'own') return;
  assert.equal(decision.claim.owner.key, markedBy);
});

always('a free target goes to the oldest rule that can make it', (given, decision) => {
  if (decision.do !== 'create') return;
  const able = given.entries.filter(({ claim }) => claim.mode === 'own' && given.viewOf(claim).state === 'present');
  const ranks = able.map(({ claim: { owner } }) => `${owner.rank} ${owner.key}`).sort();
  const { owner } = decision.claim;
  assert.equal(`${owner.rank} ${owner.key}`, ranks[0]);
});

always('marks of another controller are not overwritten', ({ markedBy }, decision) => {
  if (decision.do !== 'update' || decision.claim.mode !== 'own' || markedBy === undefined) return;
  assert.equal(reconcilerOf(markedBy), reconcilerOf(decision.claim.owner.key));
});

always('a copy of another controller is not filled', ({ entries, markedBy }, decision) => {
  if (decision.do !== 'update' || decision.claim.mode !== 'fill' || markedBy === undefined) return;
  const claimed = entries.some(({ claim }) => claim.mode === 'own');
  if (claimed) assert.equal(reconcilerOf(markedBy), reconcilerOf(decision.claim.owner.key));
});

always('a copy has the marks of its owner and its place', (_given, decision) => {
  if (!('desired' in decision) || decision.claim.mode !== 'own') return;
  assert.equal(decision.desired.annotations[OWNER], decision.claim.owner.key);
  assert.equal(decision.desired.annotations[PLACE_ANNOTATION], 'team/db');
});

always('a filled object gets no mark', ({ entries }, decision) => {
  if (!('desired' in decision) || decision.claim.mode !== 'fill') return;
  if (entries.some(({ claim }) => claim.mode === 'own')) return;
  assert.ok(!(OWNER in decision.desired.annotations) && !(PLACE_ANNOTATION in decision.desired.annotations));
});

always('no content of a type that is never copied is written', ({ fingerprintOf }, decision) => {
  if (!('desired' in decision) || decision.desired.data !== 'source') return;
  assert.notEqual(fingerprintOf(decision.claim)?.type, 'kubernetes.io/service-account-token');
});

always('a failed takeover never blocks the deletion of another rule', (given, decision) => {
  const going = given.entries.some(({ claim }) => claim.mode === 'release' && claim.owner.key === given.markedBy);
  if (!going || given.observed?.deleting !== false || given.goingAway || given.usedBy !== undefined) return;
  assert.ok(['delete', 'update', 'replace', 'need'].includes(decision.do), decision.do);
});

test('for any facts: the order of the claims does not matter', () => {
  fc.assert(
    fc.property(anyFacts, (given) => {
      // Of several that fill one target it is the first: a target has one, because it fills itself.
      fc.pre(given.entries.filter(({ claim }) => claim.mode === 'fill').length < 2);
      const turned = { ...given, entries: given.entries.toReversed() };
      assert.equal(winnerOf(turned), winnerOf(given));
      assert.equal(textOf(plan(turned)), textOf(plan(given)));
    }),
    { numRuns: 3000 },
  );
});
