/** The data of a copy whose source has a replicate-from, too: the copy is filled from there, by its own rule. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ClaimBook } from '../../../copy/book/claim-book.ts';
import { type Claimed, sourceView, type SourceView } from '../../../copy/model/claim.ts';
import { type ResourceKey, resourceKey, ruleKeyOfKind } from '../../../copy/model/keys.ts';
import { contentVersion, observe, type Observed } from '../../../copy/model/observed.ts';
import type { Plan } from '../../../copy/plan/facts.ts';
import { plan } from '../../../copy/plan/plan.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { type Annotations, annotationNames } from '../rules/annotations.ts';
import { FilledShape } from './pull.ts';
import { PushShape } from './push.ts';

const names = annotationNames('k8s-replicator');
const settings = {
  names,
  allowAll: true,
  ignoreUnknown: false,
  createWithLabels: {},
  patterns: new PatternCache('full'),
};
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
      claim: { owner, mode: 'own', source: keyOf(CREATOR), shape: new PushShape(settings, CREATOR) },
    },
    {
      target: keyOf(COPY),
      claim: {
        owner: self,
        mode: 'fill',
        source: keyOf(from),
        shape: new FilledShape(settings, { ...COPY, kind: 'Secret' }, from),
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
