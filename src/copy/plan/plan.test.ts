/** Tests the plan for a target: tables of facts with the expected plan, and properties that hold for any facts. */
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
import type { OrphanAction } from '../model/rule-set.ts';
import type { Facts, Plan } from './facts.ts';
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

/** A shape whose rule name shows the rule's age: `mirrors:a` is older than `mirrors:b` and `push:b`. */
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

/** A copy that has the present version of its source, and that no other client has changed. */
const copyOf = (rule: string, more: Partial<Observed> = {}): Observed =>
  object({ [OWNER]: rule, [PLACE_ANNOTATION]: 'team/db', [VERSION]: '7' }, { ownKeys: 'k', ...more });

/** The rules whose marks count, but that do not claim the target. */
const leftBy = (marks: readonly (RuleKey | undefined)[], entries: readonly Entry[] = []): readonly RuleKey[] =>
  marks.filter((rule) => rule !== undefined).filter((rule) => !entries.some(({ claim }) => claim.owner.key === rule));

const markOn = ({ annotations }: Observed): RuleKey | undefined =>
  annotations[PLACE_ANNOTATION] === 'team/db' ? asKey(annotations[OWNER]) : undefined;

const facts = (given: Partial<Facts>): Facts => ({
  target: TARGET,
  entries: [],
  presence: given.observed === undefined ? 'absent' : 'present',
  observed: undefined,
  markedBy: given.observed && markOn(given.observed),
  leftBy: leftBy([given.markedBy ?? (given.observed && markOn(given.observed))], given.entries),
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

/** The plan as text, for example `update mirrors:a with data`. */
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
const KEEPING = entry(asKey('push:a'), 'own', { data: 'keep', labels: { app: 'x' } });
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

const KEYS = 'keys';
const TOO_MANY = userCause('TooLarge', 'too many keys');
const MERGED = { listIn: KEYS, tooMany: TOO_MANY };
const MERGING = entry(asKey('mirrors:a'), 'own', { merged: MERGED });
const INTO_USERS = entry(asKey('mirrors:a'), 'own', { merged: { ...MERGED, isUsers: true }, type: '' });
/** A copy that lists its keys, and that others have written, too. */
const shared = copyOf('mirrors:a', {
  annotations: { ...copyOf('mirrors:a').annotations, [KEYS]: 'k' },
  ownKeys: undefined,
});
/** @param keys those that the target has @param part the digest of ours among them */
const heldWith = (keys: string, part?: string): Pick<Facts, 'held'> => ({
  held: { version: '5', fingerprint: { digest: 'whole', keys, type: 'Opaque' }, part },
});
const remains = (more: Partial<DesiredObject> = {}): Claim => ({
  ...entry(asKey('mirrors:gone'), 'release', { data: 'minimal', merged: MERGED, ...more }).claim,
  source: undefined,
});

const OTHERS_MARK = 'mark-of-push';
/** A copy of several rules. `push:gone` let it go. */
const joint: Partial<Facts> = {
  entries: [A],
  observed: copyOf('mirrors:a', {
    annotations: { ...copyOf('mirrors:a').annotations, [OTHERS_MARK]: 'x', [KEYS]: 'k' },
    ownAnnotations: [OTHERS_MARK, KEYS],
  }),
  leftBy: [asKey('push:gone')],
};
/** As `joint`, with a key of somebody else. */
const jointWithOthers: Partial<Facts> = {
  ...joint,
  observed: { ...(joint.observed as Observed), ownKeys: undefined },
  orphanAction: remains({ annotations: { [OTHERS_MARK]: null, [KEYS]: null } }),
};

const TABLE: Readonly<Record<string, readonly (readonly [string, Partial<Facts>, string])[]>> = {
  'a rule that merges keys': [
    ['absent', { entries: [MERGING] }, 'create mirrors:a with data'],
    ['its copy with keys of others, not read', { entries: [MERGING], observed: shared }, 'need target'],
    [
      'read without the part that is ours',
      { entries: [MERGING], observed: shared, ...heldWith('k,own') },
      'need target',
    ],
    ['its part is as in the source', { entries: [MERGING], observed: shared, ...heldWith('k,own', 'd') }, 'nothing'],
    [
      'its part differs',
      { entries: [MERGING], observed: shared, ...heldWith('k,own', 'x') },
      'update mirrors:a with data',
    ],
    [
      'its part is as in the source, but the list of our keys is not',
      {
        entries: [MERGING],
        observed: { ...shared, annotations: { ...shared.annotations, [KEYS]: 'k,old' } },
        ...heldWith('k,own', 'd'),
      },
      'update mirrors:a with data',
    ],
    [
      'of another type, with keys of others',
      { entries: [MERGING], observed: shared, ...heldWith('k,own', 'd'), type: 'my/type' },
      'fail Immutable',
    ],
    [
      'of another type, with our keys alone',
      { entries: [MERGING], observed: shared, ...heldWith('k', 'd'), type: 'my/type' },
      'replace mirrors:a with data',
    ],
    [
      'an immutable object of a user',
      { entries: [INTO_USERS], observed: shared, ...heldWith('k', 'x'), cannotUpdate: true },
      'fail Immutable',
    ],
    [
      'the source has too many keys',
      { entries: [MERGING], observed: shared, fingerprintOf: () => ({ ...FINGERPRINT, keys: 'digest=' }) },
      'fail TooLarge',
    ],
  ],
  'no rule, and the copy may have keys of others': [
    ['not read', { observed: shared, orphanAction: remains() }, 'need target'],
    ['our keys alone', { observed: shared, orphanAction: remains(), ...heldWith('k') }, 'delete'],
    [
      'keys of others',
      { observed: shared, orphanAction: remains(), ...heldWith('k,own') },
      'update mirrors:gone with data',
    ],
    ['no other client wrote', { observed: { ...shared, ownKeys: 'k' }, orphanAction: remains() }, 'delete'],
    [
      'an object of a user, with our keys alone',
      {
        observed: { ...shared, ownKeys: 'k' },
        orphanAction: remains({ merged: { ...MERGED, isUsers: true } }),
        ...heldWith('k'),
      },
      'update mirrors:gone with data',
    ],
    [
      'and a rule of another controller wants the name',
      { entries: [PUSH], observed: shared, orphanAction: remains(), ...heldWith('k,own') },
      'update mirrors:gone with data',
    ],
    [
      'and a rule of another controller wants the name of a copy with our keys alone',
      { entries: [PUSH], observed: shared, orphanAction: remains(), ...heldWith('k') },
      'replace push:b with data',
    ],
  ],
  'one rule of several, after another let it go': [
    ['a copy whose other rule was not asked', joint, 'need owner'],
    [
      'a copy whose other rule was not asked, and whose source is missing',
      { ...joint, ...without(A.claim.owner.key) },
      'wait NoSecret',
    ],
    ['a copy that the other rule gives up', { ...joint, orphanAction: 'delete' }, 'update mirrors:a'],
    ['a copy that the other rule keeps', { ...joint, orphanAction: 'keep' }, 'nothing'],
    ['a copy that may have keys of others, not read', jointWithOthers, 'need target'],
    ['a copy with keys of others', { ...jointWithOthers, ...heldWith('k,own', 'd') }, 'nothing'],
    [
      'a copy with keys of others, and an old part',
      { ...jointWithOthers, ...heldWith('k,own', 'x') },
      'update mirrors:a with data',
    ],
    [
      'a copy without keys of others',
      { ...jointWithOthers, ...heldWith('k', 'd'), fingerprintOf: () => ({ ...FINGERPRINT, digest: 'whole' }) },
      'update mirrors:a',
    ],
    [
      'a copy that is being deleted with its rule, and the other was not asked',
      { ...joint, entries: [RELEASING] },
      'need owner',
    ],
    [
      'a copy that is being deleted with its rule, and the other keeps it',
      { ...joint, entries: [RELEASING], orphanAction: 'keep' },
      'nothing',
    ],
    [
      'a copy that is being deleted with its rule, and the other gives it up',
      { ...joint, entries: [RELEASING], orphanAction: 'delete' },
      'delete',
    ],
    [
      'a copy with keys of others that is being deleted with its rule',
      { ...jointWithOthers, entries: [RELEASING], ...heldWith('k,own') },
      'update mirrors:gone with data',
    ],
  ],
  'one rule': [
    ['absent', { entries: [A] }, 'create mirrors:a with data'],
    ['perhaps present', { entries: [A], presence: 'unknown' }, 'create mirrors:a with data'],
    ['absent, and its source is missing', { entries: [A], viewOf: () => MISSING }, 'wait NoSecret'],
    ['absent, and its source has not been read', { entries: [A], fingerprintOf: () => undefined }, 'need source'],
    ['absent, and the deletion of its old copy is not confirmed', { entries: [A], goingAway: true }, 'wait Pending'],
    ['its copy in the desired state', { entries: [A], observed: copyOf('mirrors:a') }, 'nothing'],
    [
      'its copy without the label that any write adds',
      { entries: [LABELLED], observed: copyOf('mirrors:a') },
      'nothing',
    ],
    [
      'its copy, which was overwritten after the write and not read since',
      { entries: [A], observed: overwritten },
      'need target',
    ],
    [
      'its copy in an older version',
      { entries: [A], observed: copyOf('mirrors:a'), ...stale },
      'update mirrors:a with data',
    ],
    [
      'its copy, which another client changed',
      { entries: [A], observed: copyOf('mirrors:a', { ownKeys: undefined }) },
      'need target',
    ],
    [
      'its copy, of which another client removed keys',
      { entries: [A], observed: copyOf('mirrors:a', { ownKeys: '' }) },
      'need target',
    ],
    [
      'its copy, and the source is missing',
      { entries: [A], observed: copyOf('mirrors:a'), viewOf: () => MISSING },
      'wait NoSecret',
    ],
    [
      'its copy, which is being deleted',
      { entries: [A], observed: copyOf('mirrors:a', { deleting: true }) },
      'wait Terminating',
    ],
    [
      'its copy in an older version, which cannot be updated',
      { entries: [A], observed: copyOf('mirrors:a'), ...stale, cannotUpdate: true },
      'replace mirrors:a with data',
    ],
    [
      'its copy of another type than the source',
      { entries: [A], observed: copyOf('mirrors:a'), ...stale, type: 'kubernetes.io/tls' },
      'replace mirrors:a with data',
    ],
    [
      'its copy without an annotation for the place',
      {
        entries: [A],
        observed: object({ [OWNER]: 'mirrors:a', [VERSION]: '7' }, { ownKeys: 'k' }),
        markedBy: asKey('mirrors:a'),
      },
      'update mirrors:a',
    ],
    ['an object of a user', { entries: [A], observed: foreign }, 'conflict'],
    [
      'an object of a user, which cannot be updated',
      { entries: [A], observed: foreign, cannotUpdate: true },
      'conflict',
    ],
    [
      'a clone of a copy in another place',
      { entries: [A], observed: object({ [OWNER]: 'mirrors:a', [PLACE_ANNOTATION]: 'x/db' }) },
      'conflict',
    ],
    ['a source of other copies', { entries: [A], observed: foreign, usedBy: 'the rule' }, 'conflict'],
    ['another rule’s copy', { entries: [A], observed: copyOf('mirrors:x') }, 'need owner'],
    [
      'an orphan of another rule, which has other content',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'delete', ...stale },
      'update mirrors:a with data',
    ],
    // This copy has the same version in its annotation as the source, but the version is of the other rule's source.
    [
      'an orphan of another rule that no other client has changed',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'delete' },
      'need target',
    ],
    [
      'an orphan of another rule, and of another type than the source',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'delete', ...stale, type: 'kubernetes.io/tls' },
      'replace mirrors:a with data',
    ],
    [
      'an orphan of another rule, and the source of this rule is missing',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'delete', viewOf: () => MISSING },
      'delete',
    ],
    [
      'an orphan of another rule, and the source of this rule is not known yet',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'delete', viewOf: () => ({ state: 'unknown' }) },
      'wait Pending',
    ],
    [
      'an orphan of another rule, after a failed takeover',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'delete', ...stale, takeoverFailed: true },
      'delete',
    ],
    [
      'another rule’s copy, which the policy of that rule keeps',
      { entries: [A], observed: copyOf('mirrors:x'), orphanAction: 'keep' },
      'conflict',
    ],
    [
      'an orphan of another rule, and a source of other copies',
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
      'an orphan of another rule and a source of other copies, which cannot be updated',
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
      'an orphan of another rule and a source of other copies, of another type than the source of this rule',
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
      'an orphan of another controller, and a source of other copies',
      { entries: [A], observed: copyOf('push:x'), orphanAction: 'delete', usedBy: 'the rule' },
      'conflict',
    ],
    [
      'absent, and its source has a type that is never copied',
      { entries: [A], fingerprintOf: () => ({ ...FINGERPRINT, type: 'bootstrap.kubernetes.io/token' }) },
      'fail RefusedType',
    ],
  ],
  'a rule that sets immutable': [
    ['absent', { entries: [FIXED] }, 'create mirrors:a with data'],
    [
      'its copy, which is immutable as desired',
      { entries: [FIXED], observed: copyOf('mirrors:a'), ...current, immutable: true },
      'nothing',
    ],
    [
      'its copy, of which it is not known whether it is immutable',
      { entries: [FIXED], observed: copyOf('mirrors:a'), ...current },
      'need target',
    ],
    [
      'its copy, which is not immutable yet',
      { entries: [FIXED], observed: copyOf('mirrors:a'), ...current, immutable: false },
      'update mirrors:a',
    ],
    [
      'its immutable copy with other data',
      { entries: [FIXED], observed: copyOf('mirrors:a'), ...stale, immutable: true },
      'fail Immutable',
    ],
    [
      'its immutable copy of another type',
      { entries: [FIXED], observed: copyOf('mirrors:a'), ...current, immutable: true, type: 'other' },
      'fail Immutable',
    ],
    [
      'its immutable copy with only other metadata',
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
      'its immutable copy, which must no longer be immutable',
      { entries: [LOOSE], observed: copyOf('mirrors:a'), ...current, immutable: true },
      'replace mirrors:a with data',
    ],
    [
      'its immutable copy with other data, and a custom resource',
      { entries: [FIXED], observed: copyOf('mirrors:a'), ...stale, immutable: true, isCustom: true },
      'update mirrors:a with data',
    ],
    [
      'its immutable copy, which must no longer be immutable, and a custom resource',
      { entries: [LOOSE], observed: copyOf('mirrors:a'), ...current, immutable: true, isCustom: true },
      'update mirrors:a',
    ],
  ],
  'one rule and any types of Secrets': [
    [
      'a custom resource, and its copy of another type',
      { entries: [A], observed: copyOf('mirrors:a'), ...current, type: 'other', isCustom: true },
      'update mirrors:a with data',
    ],
    [
      'absent, and a custom resource, of a type that is never copied as a Secret',
      { entries: [A], fingerprintOf: () => ({ ...FINGERPRINT, type: TOKEN }), isCustom: true },
      'create mirrors:a with data',
    ],
    [
      'absent, and the rule replaces the type of its source, which is never copied',
      {
        entries: [entry(asKey('mirrors:a'), 'own', { type: 'Opaque' })],
        fingerprintOf: () => ({ ...FINGERPRINT, type: TOKEN }),
      },
      'create mirrors:a with data',
    ],
    [
      'its copy in the desired state, and the rule replaces the type of its source, which is never copied',
      {
        entries: [entry(asKey('mirrors:a'), 'own', { type: 'Opaque' })],
        observed: copyOf('mirrors:a'),
        ...current,
        fingerprintOf: () => ({ ...FINGERPRINT, type: TOKEN }),
      },
      'nothing',
    ],
    [
      'filled by the rule from a source of a type that is never copied',
      { entries: [PULL], observed: foreign, ...stale, fingerprintOf: () => ({ ...FINGERPRINT, type: TOKEN }) },
      'fail RefusedType',
    ],
  ],
  'one rule that may set owner references': [
    [
      'its copy with the desired owner references',
      { entries: [HAS_OWNER], observed: copyOf('mirrors:a', { owners: ownersText([OWNED]) }), ...current },
      'nothing',
    ],
    [
      'its copy without the desired owner references',
      { entries: [HAS_OWNER], observed: copyOf('mirrors:a'), ...current },
      'update mirrors:a',
    ],
    [
      'its copy with the desired owner references and others',
      {
        entries: [HAS_OWNER],
        observed: copyOf('mirrors:a', { owners: ownersText([OWNED, { ...OWNED, uid: 'q' }]) }),
        ...current,
      },
      'update mirrors:a',
    ],
    [
      'its copy with owner references, and the rule sets none',
      { entries: [A], observed: copyOf('mirrors:a', { owners: ownersText([OWNED]) }) },
      'nothing',
    ],
  ],
  'several rules': [
    ['absent', { entries: [B, A] }, 'create mirrors:a with data'],
    [
      'absent, and the source of the older rule is missing',
      { entries: [A, B], ...without('mirrors:a') },
      'create mirrors:b with data',
    ],
    ['absent, and all sources are missing', { entries: [B, A], viewOf: () => MISSING }, 'wait NoSecret'],
    ['the copy of the younger rule', { entries: [A, B], observed: copyOf('mirrors:b') }, 'nothing'],
    [
      'the copy of the younger rule, whose source is missing',
      { entries: [A, B], observed: copyOf('mirrors:b'), ...without('mirrors:b') },
      'wait NoSecret',
    ],
    [
      'the copy of the older rule, in an older version',
      { entries: [B, A], observed: copyOf('mirrors:a'), ...stale },
      'update mirrors:a with data',
    ],
    [
      'the copy of the younger rule, which belongs to another controller',
      { entries: [A, PUSH], observed: copyOf('push:b') },
      'nothing',
    ],
    ['an object of a user', { entries: [A, B], observed: foreign }, 'conflict'],
  ],
  'a rule that is being deleted': [
    ['absent', { entries: [RELEASING] }, 'nothing'],
    ['perhaps present', { entries: [RELEASING], presence: 'unknown' }, 'need target'],
    ['its copy', { entries: [RELEASING], observed: copyOf('mirrors:a') }, 'delete'],
    [
      'its copy, which is being deleted',
      { entries: [RELEASING], observed: copyOf('mirrors:a', { deleting: true }) },
      'wait Terminating',
    ],
    [
      'its copy, and a source of other copies',
      { entries: [RELEASING], observed: copyOf('mirrors:a'), usedBy: 'the rule' },
      'nothing',
    ],
    ['another rule’s copy', { entries: [RELEASING], observed: copyOf('mirrors:x'), orphanAction: 'delete' }, 'nothing'],
    ['an object of a user', { entries: [RELEASING], observed: foreign }, 'nothing'],
    [
      'its copy, which another rule claims',
      { entries: [RELEASING, B], observed: copyOf('mirrors:a'), ...stale },
      'update mirrors:b with data',
    ],
    [
      'its copy, which another rule claims whose source is missing',
      { entries: [RELEASING, B], observed: copyOf('mirrors:a'), viewOf: () => MISSING },
      'delete',
    ],
    [
      'its copy, which another rule claims whose source is not known yet',
      { entries: [RELEASING, B], observed: copyOf('mirrors:a'), viewOf: () => ({ state: 'unknown' }) },
      'wait Pending',
    ],
    [
      'its copy, of which the takeover by another rule failed',
      { entries: [RELEASING, B], observed: copyOf('mirrors:a'), ...stale, takeoverFailed: true },
      'delete',
    ],
    [
      'its copy, which a rule of another controller claims',
      { entries: [RELEASING, PUSH], observed: copyOf('mirrors:a') },
      'replace push:b with data',
    ],
    [
      'its copy and a source of other copies, which a rule of another controller claims',
      { entries: [RELEASING, PUSH], observed: copyOf('mirrors:a'), usedBy: 'the rule' },
      'conflict',
    ],
    [
      'its copy and a source of other copies, which another rule claims and which cannot be updated',
      { entries: [RELEASING, B], observed: copyOf('mirrors:a'), ...stale, cannotUpdate: true, usedBy: 'the rule' },
      'conflict',
    ],
    [
      'the copy of another rule, which still claims it',
      { entries: [RELEASING, B], observed: copyOf('mirrors:b') },
      'nothing',
    ],
  ],
  'no rule': [
    ['absent', {}, 'nothing'],
    ['a copy of an unknown rule', { observed: copyOf('mirrors:x') }, 'need owner'],
    ['a copy whose rule no longer exists', { observed: copyOf('mirrors:x'), orphanAction: 'delete' }, 'delete'],
    ['a copy that the policy of its rule keeps', { observed: copyOf('mirrors:x'), orphanAction: 'keep' }, 'nothing'],
    [
      'a copy that is being deleted',
      { observed: copyOf('mirrors:x', { deleting: true }), orphanAction: 'delete' },
      'nothing',
    ],
    [
      'a copy that Keyferry is already deleting',
      { observed: copyOf('mirrors:x'), goingAway: true, orphanAction: 'delete' },
      'nothing',
    ],
    [
      'a copy whose rule no longer exists, and a source of other copies',
      { observed: copyOf('mirrors:x'), orphanAction: 'delete', usedBy: 'the rule' },
      'nothing',
    ],
    ['an object of a user', { observed: foreign, orphanAction: 'delete' }, 'nothing'],
  ],
  'a rule that fills objects': [
    ['absent', { entries: [PULL] }, 'nothing'],
    ['a user’s object', { entries: [PULL], observed: foreign, ...stale }, 'update push:z with data'],
    [
      'a user’s object, which cannot be updated',
      { entries: [PULL], observed: foreign, ...stale, cannotUpdate: true },
      'fail Immutable',
    ],
    [
      'a user’s object, which is being deleted',
      { entries: [PULL], observed: object({}, { deleting: true }), ...stale },
      'nothing',
    ],
    [
      'a user’s object that another rule claims',
      { entries: [A, PULL], observed: foreign, ...stale },
      'update push:z with data',
    ],
    ['the copy of a rule of another controller', { entries: [A, PULL], observed: copyOf('mirrors:a') }, 'nothing'],
    [
      'the copy of a rule of its controller',
      { entries: [KEEPING, PULL], observed: copyOf('push:a', { labels: { app: 'x' } }), ...stale },
      'update push:z with data',
    ],
    // The metadata come first, because they name the source that fills it.
    [
      'the copy of a rule of its controller, whose metadata are outdated',
      { entries: [KEEPING, PULL], observed: copyOf('push:a'), ...stale },
      'update push:a',
    ],
  ],
};

for (const [rules, rows] of Object.entries(TABLE)) {
  describe(`the plan for a target and ${rules}`, () => {
    for (const [title, given, expected] of rows) {
      it(`plan() for ${rules}, if the target is ${title}, returns: ${expected}`, () => {
        assert.equal(textOf(plan(facts(given))), expected);
      });
    }
  });
}

describe('a copy of several rules', () => {
  const desiredOf = (given: Partial<Facts>): DesiredObject => {
    const decision = plan(facts({ ...joint, ...given }));
    assert.ok('desired' in decision, decision.do);
    return decision.desired;
  };

  it('loses the marks of a rule that gave it up, and is merged no more', () => {
    const desired = desiredOf({ orphanAction: 'delete' });
    assert.deepEqual(
      [desired.annotations[OTHERS_MARK], desired.annotations[KEYS], desired.merged],
      [null, null, undefined],
    );
  });

  it('stays merged with its marks as long as it has keys of others', () => {
    const desired = desiredOf({ ...jointWithOthers, ...heldWith('k,own', 'x') });
    assert.deepEqual([desired.annotations[OTHERS_MARK], desired.annotations[KEYS], desired.merged], ['x', 'k', MERGED]);
  });

  it('loses all marks that Keyferry wrote when only keys of others remain', () => {
    const given = { entries: [], leftBy: asKeys<RuleKey>(['push:gone', 'mirrors:a']), ...heldWith('k,own') };
    const orphanAction = remains({ annotations: { [KEYS]: null } });
    assert.equal(desiredOf({ ...jointWithOthers, ...given, orphanAction }).annotations[OTHERS_MARK], null);
  });

  it('loses its place with its marks', () => {
    const entries = [entry(asKey('mirrors:a'), 'own', { data: 'minimal', annotations: { [PLACE_ANNOTATION]: null } })];
    assert.equal(desiredOf({ entries, leftBy: [] }).annotations[PLACE_ANNOTATION], null);
  });

  it('an object of a user loses only what the rule names', () => {
    const given = { entries: [], leftBy: asKeys<RuleKey>(['push:gone']), ...heldWith('k,own') };
    const orphanAction = remains({ annotations: { [KEYS]: null }, merged: { ...MERGED, isUsers: true } });
    assert.equal(OTHERS_MARK in desiredOf({ ...jointWithOthers, ...given, orphanAction }).annotations, false);
  });
});

describe('the plan for a target without metadata (an entry of Vault)', () => {
  const held = { version: '1', fingerprint: FINGERPRINT };
  const planFor = (given: Partial<Facts>): Plan =>
    plan(facts({ unmarked: { holder: undefined }, presence: 'unknown', entries: [A], ...given }));

  it('for a Vault entry, the plan first reads the content of the source', () => {
    assert.equal(textOf(planFor({ fingerprintOf: () => undefined })), 'need source');
  });

  it('if this process has not written a Vault entry, the plan writes the entry without a read', () => {
    assert.equal(planFor({}).do, 'update');
    const other = { ...held, fingerprint: { ...FINGERPRINT, digest: 'other' } };
    assert.equal(planFor({ held: other }).do, 'update');
  });

  it('if this process wrote a Vault entry, the plan reads the entry, and writes only if its content has changed', () => {
    assert.deepEqual(planFor({ held }), { do: 'need', fact: 'target' });
    assert.deepEqual(planFor({ held, presence: 'present' }), { do: 'nothing' });
    assert.equal(planFor({ presence: 'present' }).do, 'update');
  });

  it('for a Vault entry, the plan waits while the source does not exist or is empty', () => {
    const missing = planFor({ viewOf: () => MISSING });
    assert.ok(missing.do === 'wait' && missing.for === 'source');
    const empty = planFor({ fingerprintOf: () => ({ ...FINGERPRINT, keys: '' }) });
    assert.ok(empty.do === 'wait' && empty.for === 'content' && empty.reason === 'NoData');
  });

  it('if several rules claim a Vault entry, the plan is for the rule whose content it has, else for the oldest rule', () => {
    const entries = [A, B];
    const by = (holder: string | undefined): string | undefined => {
      const markedBy: RuleKey | undefined = holder === undefined ? undefined : asKey(holder);
      const decision = planFor({ entries, markedBy, unmarked: { holder: markedBy } });
      return 'claim' in decision ? decision.claim.owner.key : undefined;
    };
    assert.deepEqual([by(undefined), by('mirrors:b')], ['mirrors:a', 'mirrors:b']);
  });

  it('if no rule claims a Vault entry, the plan does nothing, because entries are never deleted', () => {
    const markedBy: RuleKey = asKey('mirrors:gone');
    assert.equal(planFor({ entries: [], markedBy, unmarked: { holder: markedBy } }).do, 'nothing');
  });
});

describe('the message of a plan', () => {
  it('if a clone of a copy blocks the target, the message of the conflict names the annotation keyferry.dev/target', () => {
    const observed = object({ [OWNER]: 'mirrors:a', [PLACE_ANNOTATION]: 'x/db' });
    const decision = plan(facts({ entries: [A], observed }));
    assert.match(decision.do === 'conflict' ? decision.message : '', /cloned from a copy .*keyferry\.dev\/target/);
  });

  it('if a source of other copies blocks the target, the message of the conflict names the rule that copies from it', () => {
    const decision = plan(facts({ entries: [A], observed: foreign, usedBy: 'SecretMirror x/y' }));
    assert.match(decision.do === 'conflict' ? decision.message : '', /is the source of SecretMirror x\/y/);
  });

  it('if a rule is deleted and its copy stays because it is a source, the plan has the outcome SourceInUse for the rule', () => {
    const kept = { entries: [RELEASING], observed: copyOf('mirrors:a'), usedBy: 'the rule' };
    const decision = plan(facts(kept));
    assert.equal(decision.do === 'nothing' && decision.remarks?.release, KEPT_AS_SOURCE);
    const waiting = plan(facts({ ...kept, entries: [RELEASING, B], viewOf: () => MISSING }));
    assert.equal(waiting.do === 'wait' && waiting.remarks?.release, KEPT_AS_SOURCE);
    const going = plan(facts({ ...kept, goingAway: true }));
    assert.equal(going.do === 'wait' && going.remarks, undefined, 'Keyferry has already deleted it');
  });

  it('a rule that must not fill the copy of another controller gets the outcome Conflict', () => {
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

/** Any possible facts: each rule has at most one claim, a mark counts or not, and each fact is known or unknown. */
const shots = fc.record({
  claims: fc.uniqueArray(fc.record({ rule: fc.constantFrom(...RULES), mode: fc.constantFrom(...MODES) }), {
    selector: ({ rule }) => rule,
    maxLength: 4,
  }),
  there: fc.constantFrom('absent', 'unknown', 'present', 'deleting'),
  mark: fc.option(fc.constantFrom(...RULES, ...asKeys<RuleKey>(['mirrors:x', 'push:x'])), { nil: undefined }),
  place: fc.constantFrom('team/db', 'other/db', undefined),
  counts: fc.boolean(),
  /** Other marks that count. */
  marks: fc.uniqueArray(fc.constantFrom(...asKeys<RuleKey>(['a:gone', 'b:gone'])), { maxLength: 2 }),
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

function factsOf({
  claims,
  there,
  mark,
  place,
  counts,
  marks,
  views,
  fingerprints,
  held,
  ownKeys,
  ...rest
}: Shot): Facts {
  const annotations = {
    ...(mark === undefined ? {} : { [OWNER]: mark }),
    ...(place === undefined ? {} : { [PLACE_ANNOTATION]: place }),
  };
  const observed =
    there === 'present' || there === 'deleting'
      ? object(annotations, { deleting: there === 'deleting', ownKeys })
      : undefined;
  // A mark counts under the same conditions as in `Claims.ownersOf`.
  const marked = observed !== undefined && place !== 'other/db' && (counts || place === 'team/db');
  const entries = claims.map(({ rule, mode }) => entry(rule, mode));
  return {
    target: TARGET,
    entries,
    presence: observed !== undefined ? 'present' : there === 'unknown' ? 'unknown' : 'absent',
    observed,
    markedBy: marked ? mark : undefined,
    leftBy: marked && mark !== undefined ? leftBy([mark, ...marks], entries) : [],
    viewOf: ({ owner }) => views[RULES.findIndex((rule) => rule === owner.key)] ?? MISSING,
    fingerprintOf: ({ owner }) => fingerprints[RULES.findIndex((rule) => rule === owner.key)],
    held: held === undefined ? undefined : { version: '5', fingerprint: held },
    now: 0,
    ...rest,
  };
}

const anyFacts = shots.map(factsOf);

const always = (what: string, holds: (given: Facts, decision: Plan) => void): void => {
  test(`property of plan(): ${what}`, () => {
    fc.assert(
      fc.property(anyFacts, (given) => {
        holds(given, plan(given));
      }),
      { numRuns: 3000 },
    );
  });
};

/** The state of the source of the rule that gets the target. */
const winnersView = (given: Facts): SourceView | undefined => {
  const winner = winnerOf(given)?.claim;
  return winner && given.viewOf(winner);
};

const reconcilerOf = (rule: string | undefined): string | undefined => rule?.split(':')[0];

always('only objects with a mark that counts are deleted or replaced', ({ markedBy, observed }, decision) => {
  if (decision.do !== 'delete' && decision.do !== 'replace') return;
  assert.ok(observed !== undefined && markedBy !== undefined);
});

always(
  'an object without a mark that counts is updated only by a rule that fills it',
  ({ markedBy, observed }, decision) => {
    if (decision.do !== 'update' || observed === undefined || markedBy !== undefined) return;
    assert.equal(decision.claim.mode, 'fill');
  },
);

always('a copy is deleted only if its rule is being deleted, or was read and does not claim it', (given, decision) => {
  if (decision.do !== 'delete') return;
  const claims = given.entries.filter(({ claim }) => claim.owner.key === given.markedBy);
  assert.ok(!claims.some(({ claim }) => claim.mode === 'own'), 'its rule claims it');
  assert.ok(claims.some(({ claim }) => claim.mode === 'release') || given.orphanAction === 'delete');
});

always(
  'a source of other copies is never deleted, and is replaced only for the rule whose mark it has',
  ({ usedBy, markedBy }, decision) => {
    if (usedBy === undefined) return;
    assert.notEqual(decision.do, 'delete');
    if (decision.do === 'replace') assert.equal(decision.claim.owner.key, markedBy);
  },
);

always(
  'a copy is deleted, and marks go, only after each rule that let it go was asked, and none keeps it',
  (given, decision) => {
    if (given.leftBy.length === 0 || given.orphanAction === 'delete') return;
    if (decision.do === 'update') assert.ok(decision.claim.mode === 'fill' || given.orphanAction === 'keep');
    else assert.notEqual(decision.do, 'delete');
  },
);

always('an object that is being deleted is not changed', ({ observed, goingAway }, decision) => {
  if (observed?.deleting !== true && !goingAway) return;
  assert.ok(['nothing', 'wait', 'conflict', 'need'].includes(decision.do), decision.do);
});

always('an object that exists is not created, and an absent object is not changed', ({ observed }, decision) => {
  if (decision.do === 'create') assert.equal(observed, undefined);
  if (['update', 'replace', 'delete'].includes(decision.do)) assert.notEqual(observed, undefined);
});

always(
  'the rule whose mark the target has keeps the target as long as it claims the target',
  ({ entries, markedBy }, decision) => {
    const holds = entries.some(({ claim }) => claim.mode === 'own' && claim.owner.key === markedBy);
    if (!holds || !('claim' in decision) || decision.claim.mode !== 'own') return;
    assert.equal(decision.claim.owner.key, markedBy);
  },
);

always('an absent target is created for the oldest claiming rule whose source is present', (given, decision) => {
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

always('a written copy has the mark of its owner and the annotation keyferry.dev/target', (_given, decision) => {
  if (!('desired' in decision) || decision.claim.mode !== 'own') return;
  assert.equal(decision.desired.annotations[OWNER], decision.claim.owner.key);
  assert.equal(decision.desired.annotations[PLACE_ANNOTATION], 'team/db');
});

always('an object that is only filled gets no mark', ({ entries }, decision) => {
  if (!('desired' in decision) || decision.claim.mode !== 'fill') return;
  if (entries.some(({ claim }) => claim.mode === 'own')) return;
  assert.ok(!(OWNER in decision.desired.annotations) && !(PLACE_ANNOTATION in decision.desired.annotations));
});

always('if the type of a Secret is never copied, its content is not written', ({ fingerprintOf }, decision) => {
  if (!('desired' in decision) || decision.desired.data !== 'source') return;
  assert.notEqual(fingerprintOf(decision.claim)?.type, 'kubernetes.io/service-account-token');
});

always('a failed takeover never blocks the end of a copy whose rule is being deleted', (given, decision) => {
  const going = given.entries.some(({ claim }) => claim.mode === 'release' && claim.owner.key === given.markedBy);
  if (!going || given.observed?.deleting !== false || given.goingAway || given.usedBy !== undefined) return;
  // While the winner's source is not known, it may still take over. A filler beside it may have nothing to do.
  const isUnknown = given.takeoverFailed !== true && winnersView(given)?.state === 'unknown';
  const waits = isUnknown && ['wait', 'nothing'].includes(decision.do);
  // Another rule whose mark it has, too, keeps it.
  if (given.leftBy.length > 0 && given.orphanAction === 'keep') return;
  assert.ok(waits || ['delete', 'update', 'replace', 'need'].includes(decision.do), decision.do);
});

test('a target that one rule owns and another empties because its source has no data is so in the plan', () => {
  const observed = copyOf('push:a', { labels: { app: 'x' } });
  const empty = entry(asKey('push:z'), 'fill', { data: 'minimal', isSourceEmpty: true });
  const decision = plan(facts({ entries: [KEEPING, empty], observed }));
  assert.ok(decision.do === 'update' && decision.claim === empty.claim, textOf(decision));
  assert.equal(decision.desired.isSourceEmpty, true);
});

always(
  'a copy that a rule able to act wants, or one whose source is not known yet, is never deleted',
  (given, decision) => {
    const winner = winnerOf(given)?.claim;
    if (decision.do !== 'delete' || winner === undefined || given.takeoverFailed === true) return;
    const state = winnersView(given)?.state;
    const isRefused = given.fingerprintOf(winner)?.type === 'kubernetes.io/service-account-token';
    assert.ok(state === 'missing' || state === 'failed' || (state === 'present' && isRefused), state);
  },
);

test('property of plan(): the order of the claims does not change the plan', () => {
  fc.assert(
    fc.property(anyFacts, (given) => {
      // If there were several fill claims, the first in the list would win. A real target has at most one: its own
      // annotation asks for it.
      fc.pre(given.entries.filter(({ claim }) => claim.mode === 'fill').length < 2);
      const turned = { ...given, entries: given.entries.toReversed() };
      assert.equal(winnerOf(turned), winnerOf(given));
      assert.equal(textOf(plan(turned)), textOf(plan(given)));
    }),
    { numRuns: 3000 },
  );
});
