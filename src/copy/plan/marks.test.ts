/** The owner of an object, by the marks on it, its place and the claims. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { userCause } from '../model/cause.ts';
import { observedObject } from '../../../test/support/observed-object.ts';
import type { Claimed, ClaimMode } from '../model/claim.ts';
import { ClaimBook } from '../book/claim-book.ts';
import { ownerByMark, placedOwner } from './marks.ts';
import { type Observed, PLACE_ANNOTATION } from '../model/observed.ts';
import { asKey } from '../../../test/support/keys.ts';
import type { RuleKey, ResourceKey } from '../model/keys.ts';

const TARGET: ResourceKey = asKey('c:Secret/team/db');
const VERSION = 'version';

/** Two controllers; each reads the annotation with its name. */
const CONTROLLERS = ['mirrors', 'push'].map((name) => ({
  ownerOf: ({ annotations }: Observed) =>
    annotations[name] === undefined ? undefined : asKey<RuleKey>(`${name}:${annotations[name]}`),
}));

const claim = (key: RuleKey, mode: ClaimMode, target = TARGET, source?: ResourceKey): Claimed => ({
  target,
  claim: {
    owner: { key, title: key, rank: '' },
    mode,
    source,
    shape: {
      id: key,
      desiredState: () => ({ kind: 'wait', for: 'source', ...userCause('', '') }),
      heldVersion: ({ annotations }) => annotations[VERSION],
    },
  },
});

const book = (...claims: readonly Claimed[]): ClaimBook => {
  const made = new ClaimBook();
  for (const one of claims) made.replace(one.claim.owner.key, [one], []);
  return made;
};

const HERE = { [PLACE_ANNOTATION]: 'team/db' };
const ELSEWHERE = { [PLACE_ANNOTATION]: 'other/db' };
const USER = claim(asKey('mirrors:user'), 'own', asKey('c:Secret/next/db'), TARGET);

describe('a mark', () => {
  const rows: readonly (readonly [string, Readonly<Record<string, string>>, ClaimBook, string | undefined])[] = [
    ['in its place counts without a claim', { mirrors: 'a', ...HERE }, book(), 'mirrors:a'],
    ['in its place counts on a source', { mirrors: 'a', ...HERE }, book(USER), 'mirrors:a'],
    ['of another place does not count', { mirrors: 'a', ...ELSEWHERE }, book(), undefined],
    [
      'of another place does not count for its rule',
      { mirrors: 'a', ...ELSEWHERE },
      book(claim(asKey('mirrors:a'), 'own')),
      undefined,
    ],
    [
      'with an empty place does not count',
      { mirrors: 'a', [PLACE_ANNOTATION]: '' },
      book(claim(asKey('mirrors:a'), 'own')),
      undefined,
    ],
    [
      'without a place counts if its rule claims the target',
      { mirrors: 'a' },
      book(claim(asKey('mirrors:a'), 'own')),
      'mirrors:a',
    ],
    [
      'without a place counts if its rule releases the target',
      { mirrors: 'a' },
      book(claim(asKey('mirrors:a'), 'release')),
      'mirrors:a',
    ],
    [
      'without a place does not count if its rule fills the target',
      { push: 'a' },
      book(claim(asKey('push:a'), 'fill')),
      undefined,
    ],
    [
      'without a place does not count for another rule',
      { mirrors: 'a' },
      book(claim(asKey('mirrors:b'), 'own')),
      undefined,
    ],
    ['without a place does not count without a claim', { mirrors: 'a' }, book(), undefined],
    [
      'without a place does not count on a source',
      { mirrors: 'a' },
      book(claim(asKey('mirrors:a'), 'own'), USER),
      undefined,
    ],
    [
      'without a place counts on a source that has the version of its own source',
      { mirrors: 'a', [VERSION]: '1' },
      book(claim(asKey('mirrors:a'), 'own'), USER),
      'mirrors:a',
    ],
    [
      'without a place does not release a source',
      { mirrors: 'a', [VERSION]: '1' },
      book(claim(asKey('mirrors:a'), 'release'), USER),
      undefined,
    ],
    [
      'of the controller that claims the target takes precedence',
      { mirrors: 'x', push: 'a', ...HERE },
      book(claim(asKey('push:a'), 'own')),
      'push:a',
    ],
    ['that does not exist has no owner', HERE, book(claim(asKey('mirrors:a'), 'own')), undefined],
  ];
  for (const [title, annotations, claims, expected] of rows) {
    it(title, () => {
      assert.equal(ownerByMark(CONTROLLERS, claims, observedObject({ annotations }), TARGET), expected);
    });
  }

  it('counts without claims only in its place', () => {
    assert.equal(placedOwner(CONTROLLERS, observedObject({ annotations: { push: 'a', ...HERE } }), TARGET), 'push:a');
    assert.equal(
      placedOwner(CONTROLLERS, observedObject({ annotations: { push: 'a', ...ELSEWHERE } }), TARGET),
      undefined,
    );
    assert.equal(placedOwner(CONTROLLERS, observedObject({ annotations: { push: 'a' } }), TARGET), undefined);
  });
});

describe('a source of copies', () => {
  it('is used by rules that make copies of it, also if they have no target yet', () => {
    assert.equal(book(USER).userOf(TARGET), 'mirrors:user');
    const waiting = book();
    waiting.replace(asKey('mirrors:waiting'), [], [TARGET]);
    assert.equal(waiting.userOf(TARGET), 'mirrors:waiting');
  });

  it('is not used by a rule that only fills objects from it', () => {
    const filling = book();
    filling.replace(asKey('push:a'), [claim(asKey('push:a'), 'fill', asKey('c:Secret/next/db'), TARGET)], [TARGET]);
    assert.equal(filling.userOf(TARGET), undefined);
  });

  it('is reported as unused with the last rule that uses it, and not before', () => {
    const claims = book(USER);
    claims.replace(asKey('mirrors:waiting'), [], [TARGET]);
    assert.deepEqual(claims.replace(asKey('mirrors:user'), [], []).unusedSources, []);
    assert.deepEqual(claims.replace(asKey('mirrors:waiting'), [], []).unusedSources, [TARGET]);
  });
});
