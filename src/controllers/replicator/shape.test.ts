/** What a target gets from its source; and messages must not show whether a source in another namespace exists. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';

import { ClaimBook } from '../../copy/book/claim-book.ts';
import { userCause } from '../../copy/model/cause.ts';
import { type Claimed, type DesiredState, sourceView, type SourceView } from '../../copy/model/claim.ts';
import { type ResourceKey, resourceKey, ruleKeyOfKind } from '../../copy/model/keys.ts';
import { contentVersion, observe, type Observed } from '../../copy/model/observed.ts';
import type { Plan } from '../../copy/plan/facts.ts';
import { plan } from '../../copy/plan/plan.ts';
import { PatternCache } from '../../runtime/text/name-patterns.ts';
import { FilledShape, PushShape } from './shape.ts';
import { type Annotations, annotationNames } from './words.ts';

const names = annotationNames('k8s-replicator');
const settings = {
  names,
  allowAll: false,
  ignoreUnknown: false,
  createWithLabels: {},
  patterns: new PatternCache('full'),
};
const MISSING: SourceView = {
  state: 'missing',
  ...userCause('NoSecret', 'secret victim/x not found, waiting to appear'),
};

function present(annotations: Annotations): SourceView {
  return { state: 'present', version: '7', labels: {}, annotations };
}

function desiredState(
  source: SourceView,
  from: string,
  filled: boolean,
  namespace = 'me',
  more: Annotations = {},
): DesiredState {
  const [home = '', name = ''] = from.split('/');
  const target = observe({
    name: 'x',
    namespace,
    uid: 'u',
    resourceVersion: '1',
    creationTimestamp: '',
    annotations: { [names.from]: from, ...(filled ? { [names.version]: '1' } : {}), ...more },
  });
  return new FilledShape(settings, { kind: 'Secret', namespace, name: 'x' }, { namespace: home, name }).desiredState(
    source,
    target,
    0,
  );
}

describe('a source in another namespace', () => {
  const closed: readonly [string, Annotations][] = [
    ['has no permission', {}],
    ['forbids replication', { [names.allowed]: 'false' }],
    ['names other namespaces', { [names.allowedNamespaces]: 'other,them-.*' }],
    ['is a copy without permission to pass it on', { [names.allowed]: 'true', [names.from]: 'a/b' }],
  ];
  for (const [title, annotations] of closed) {
    it(`if a source in another namespace ${title}, the message is the same as for a source that does not exist`, () => {
      for (const filled of [false, true]) {
        const existing = desiredState(present(annotations), 'victim/x', filled);
        // Only the time of the write depends on this (`lackOf`), and users read nothing of it.
        const told = (state: DesiredState): object => ({ ...state, isSourceEmpty: undefined });
        assert.deepEqual(told(existing), told(desiredState(MISSING, 'victim/x', filled)));
        assert.equal(existing.kind, filled ? 'be' : 'fail');
        assert.doesNotMatch(JSON.stringify(existing), /not found|other|them-/u);
        assert.match(JSON.stringify(existing), /Denied.*does not exist or does not allow namespace me/u);
      }
    });
  }

  const odd: readonly [string, Annotations][] = [
    ['an ill-formed permission', { [names.allowed]: 'perhaps' }],
    ['a bad pattern', { [names.allowedNamespaces]: '(((' }],
    ['an unknown annotation', { 'k8s-replicator/replicate-too': 'x' }],
    ['a list that is too long', { [names.allowedNamespaces]: 'a,'.repeat(20_000) }],
  ];
  for (const [title, annotations] of odd) {
    it(`if a source has ${title}, the message in another namespace is that of a missing source; in its own namespace it names the problem`, () => {
      const source = present(
        observe({ name: 'x', uid: 'u', resourceVersion: '1', creationTimestamp: '', annotations }).annotations,
      );
      assert.deepEqual(desiredState(source, 'victim/x', false), desiredState(MISSING, 'victim/x', false));
      const own = desiredState(source, 'me/y', false);
      assert.ok(own.kind === 'fail' && own.reason !== 'Denied');
    });
  }

  it('if a source allows another namespace, the message there names the problem of the source', () => {
    const allowed = { [names.allowed]: 'true' };
    assert.match(
      JSON.stringify(desiredState(present({ ...allowed, 'k8s-replicator/x': '' }), 'victim/x', false)),
      /UnknownAnnotation/u,
    );
    assert.match(
      JSON.stringify(desiredState(present({ ...allowed, [names.once]: 'x' }), 'victim/x', false)),
      /IllFormed/u,
    );
    const loop = {
      ...allowed,
      [names.from]: 'me/x',
      [names.inherited]: '.*',
      [names.origin]: 'me/x',
      [names.version]: '1',
    };
    assert.match(JSON.stringify(desiredState(present(loop), 'victim/x', false)), /Loop/u);
  });

  it('in the namespace of the source, the message says whether the source is missing or denies permission', () => {
    assert.match(JSON.stringify(desiredState(MISSING, 'me/y', false)), /NoSecret/u);
    assert.match(JSON.stringify(desiredState(present({}), 'me/y', false)), /Denied.*has neither annotation/u);
  });
});

test('replicate-from fills a clone of a copy of a SecretMirror, but not the copy itself', () => {
  const allowed = present({ [names.allowed]: 'true' });
  const mirrored = (target: string): DesiredState => {
    const marks = { 'mirrors.kts.studio/owned-by': 'home/mirror', 'keyferry.dev/target': target };
    return desiredState(allowed, 'victim/x', false, 'me', marks);
  };
  const clone = mirrored('team/x');
  assert.ok(clone.kind === 'be' && clone.data === 'source');
  const copy = mirrored('me/x');
  assert.ok(copy.kind === 'fail' && copy.reason === 'Conflict');
});

// The data of a copy whose source has a replicate-from, too: the copy is filled from there, by its own rule.
const CREATOR = { namespace: 'home', name: 'creator' };
const COPY = { namespace: 'team', name: 'copy' };
const FINGERPRINT = { digest: 'd', keys: 'k', type: 'Opaque' };

function observed(place: { readonly namespace: string; readonly name: string }, annotations: Annotations): Observed {
  return observe({ ...place, uid: place.name, resourceVersion: '1', creationTimestamp: '', annotations });
}

/**
 * The plan for a copy of home/creator, which has `replicate-from: home/new`.
 * @param madeBy the source that made the copy, and whose data it has
 * @param isThere whether home/new exists
 */
function planned(madeBy: string, isThere: boolean): Plan {
  const keyOf = ({ namespace, name }: typeof COPY): ResourceKey => resourceKey('c', 'Secret', namespace, name);
  const creator = observed(CREATOR, { [names.to]: 'team/copy', [names.from]: 'home/new' });
  const copy = observed(COPY, {
    [names.by]: madeBy,
    [names.from]: 'home/old',
    [names.version]: '1',
    'keyferry.dev/target': 'team/copy',
  });
  const from = { namespace: 'home', name: 'new' };
  const ruleOf = (place: typeof COPY) => ruleKeyOfKind('replicator', 'Secret', place.namespace, place.name);
  const owner = { key: ruleOf(CREATOR), title: 'creator', rank: '' };
  const self = { key: ruleOf(COPY), title: 'copy', rank: '' };
  const claims: Claimed[] = [
    {
      target: keyOf(COPY),
      claim: {
        owner,
        mode: 'own',
        source: keyOf(CREATOR),
        shape: new PushShape(settings, CREATOR, creator.annotations, 'home/new'),
      },
    },
    {
      target: keyOf(COPY),
      claim: {
        owner: self,
        mode: 'fill',
        source: keyOf(from),
        shape: new FilledShape({ ...settings, allowAll: true }, { ...COPY, kind: 'Secret' }, from),
      },
    },
  ];
  const book = new ClaimBook();
  for (const one of claims) book.replace(one.claim.owner.key, [one], []);
  const views = new Map<ResourceKey | undefined, SourceView>([
    [keyOf(CREATOR), sourceView(keyOf(CREATOR), creator, () => true)],
    [keyOf(from), sourceView(keyOf(from), isThere ? observed(from, {}) : undefined, () => true)],
  ]);
  const [namespace = '', name = ''] = madeBy.split('/');
  return plan({
    target: keyOf(COPY),
    entries: book.on(keyOf(COPY)),
    observed: copy,
    presence: 'present',
    markedBy: ruleOf({ namespace, name }),
    leftBy: [ruleOf({ namespace, name })],
    orphanAction: 'delete',
    viewOf: ({ source }) => views.get(source) ?? { state: 'unknown' },
    fingerprintOf: () => FINGERPRINT,
    held: { version: contentVersion(copy), fingerprint: FINGERPRINT },
    type: 'Opaque',
    usedBy: undefined,
    goingAway: false,
    cannotUpdate: false,
    now: 0,
  });
}

for (const isThere of [true, false]) {
  const state = isThere ? 'exists' : 'does not exist';
  test(`if a source takes over the copy of another source, the old data go in the same write, also if the replicate-from of the source ${state}`, () => {
    const decision = planned('other/source', isThere);
    assert.ok(decision.do === 'update' && decision.withData);
    assert.equal(decision.desired.data, 'minimal');
    assert.equal(decision.desired.annotations[names.by], 'home/creator');
    assert.equal(decision.desired.annotations[names.version], null);
  });

  test(`if a source gets another replicate-from, its copy keeps the old data in this write, also if the new source ${state}`, () => {
    const decision = planned('home/creator', isThere);
    assert.ok(decision.do === 'update' && !decision.withData);
    assert.equal(decision.desired.data, 'keep');
    assert.equal(decision.desired.annotations[names.from], 'home/new');
  });
}
