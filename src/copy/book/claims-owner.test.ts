/** Tests how the owner of an object follows from its marks, its annotation keyferry.dev/target and the claims. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';

import { userCause } from '../model/cause.ts';
import { observedObject } from '../../../test/support/observed-object.ts';
import { type Claimed, type ClaimMode, leavingClaims, type Outcome } from '../model/claim.ts';
import type { RuleSet } from '../model/rule-set.ts';
import { Claims } from './claims.ts';
import { type Observed, PLACE_ANNOTATION } from '../model/observed.ts';
import { asKey, asKeys } from '../../../test/support/keys.ts';
import type { RuleKey, ResourceKey } from '../model/keys.ts';

const TARGET: ResourceKey = asKey('c:Secret/team/db');
const VERSION = 'version';

const unused = (): never => assert.fail('not used');

/** Two controllers. The mark of each controller is the annotation with the controller's name. */
const CONTROLLERS = ['mirrors', 'push'].map((name): RuleSet => {
  return {
    name,
    evaluate: unused,
    markOn: ({ annotations }: Observed) => {
      if (annotations[name] === undefined) return undefined;
      const rule = asKey<RuleKey>(`${name}:${annotations[name]}`);
      return name === 'push' ? { rule, doubt: annotations[VERSION] === undefined ? 'no version' : null } : { rule };
    },
    orphanPolicy: unused,
  };
});

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

const claimsOf = (...claimed: readonly Claimed[]): Claims => {
  const made = new Claims();
  for (const controller of CONTROLLERS) made.add(controller);
  for (const one of claimed) made.book.replace(one.claim.owner.key, [one], []);
  return made;
};

const HERE = { [PLACE_ANNOTATION]: 'team/db' };
const ELSEWHERE = { [PLACE_ANNOTATION]: 'other/db' };
const USER = claim(asKey('mirrors:user'), 'own', asKey('c:Secret/next/db'), TARGET);

describe('a mark', () => {
  const rows: readonly (readonly [string, Readonly<Record<string, string>>, Claims, string | undefined])[] = [
    ['that names its own object counts without a claim', { mirrors: 'a', ...HERE }, claimsOf(), 'mirrors:a'],
    [
      'that names its own object counts, if the object is a source',
      { mirrors: 'a', ...HERE },
      claimsOf(USER),
      'mirrors:a',
    ],
    ['that names another object does not count', { mirrors: 'a', ...ELSEWHERE }, claimsOf(), undefined],
    [
      'that names another object does not count, even if its rule claims the target',
      { mirrors: 'a', ...ELSEWHERE },
      claimsOf(claim(asKey('mirrors:a'), 'own')),
      undefined,
    ],
    [
      'that names an object with the empty name does not count',
      { mirrors: 'a', [PLACE_ANNOTATION]: '' },
      claimsOf(claim(asKey('mirrors:a'), 'own')),
      undefined,
    ],
    [
      'without the annotation keyferry.dev/target counts if its rule claims the target',
      { mirrors: 'a' },
      claimsOf(claim(asKey('mirrors:a'), 'own')),
      'mirrors:a',
    ],
    [
      'without the annotation keyferry.dev/target counts if its rule releases the target',
      { mirrors: 'a' },
      claimsOf(claim(asKey('mirrors:a'), 'release')),
      'mirrors:a',
    ],
    [
      'without the annotation keyferry.dev/target does not count if its rule only fills the target',
      { push: 'a' },
      claimsOf(claim(asKey('push:a'), 'fill')),
      undefined,
    ],
    [
      'without the annotation keyferry.dev/target does not count if only another rule claims the target',
      { mirrors: 'a' },
      claimsOf(claim(asKey('mirrors:b'), 'own')),
      undefined,
    ],
    [
      'without the annotation keyferry.dev/target does not count without a claim',
      { mirrors: 'a' },
      claimsOf(),
      undefined,
    ],
    [
      'without the annotation keyferry.dev/target does not count if the object is a source',
      { mirrors: 'a' },
      claimsOf(claim(asKey('mirrors:a'), 'own'), USER),
      undefined,
    ],
    [
      'without the annotation keyferry.dev/target counts on a source, if the object has the version of its own source',
      { mirrors: 'a', [VERSION]: '1' },
      claimsOf(claim(asKey('mirrors:a'), 'own'), USER),
      'mirrors:a',
    ],
    [
      'without the annotation keyferry.dev/target does not count on a source that its rule releases',
      { mirrors: 'a', [VERSION]: '1' },
      claimsOf(claim(asKey('mirrors:a'), 'release'), USER),
      undefined,
    ],
    [
      'of the controller that claims the target takes precedence over the mark of another controller',
      { mirrors: 'x', push: 'a', ...HERE },
      claimsOf(claim(asKey('push:a'), 'own')),
      'push:a',
    ],
    ['that does not exist gives the object no owner', HERE, claimsOf(claim(asKey('mirrors:a'), 'own')), undefined],
  ];
  for (const [title, annotations, claims, expected] of rows) {
    it(`a mark ${title}`, () => {
      assert.equal(claims.ownersOf(observedObject({ annotations }), TARGET)[0], expected);
    });
  }

  it('in the index of marks, a mark counts without a claim only if it names its own object', () => {
    const ownerOn = (annotations: Readonly<Record<string, string>>): RuleKey | undefined => {
      const claims = claimsOf();
      claims.objectChanged(TARGET, undefined, observedObject({ annotations }));
      return [...claims.owners][0];
    };
    assert.equal(ownerOn({ push: 'a', ...HERE }), 'push:a');
    assert.equal(ownerOn({ push: 'a', ...ELSEWHERE }), undefined);
    assert.equal(ownerOn({ push: 'a' }), undefined);
  });
});

describe('an object with the marks of several rules', () => {
  const JOINT = observedObject({ annotations: { mirrors: 'a', push: 'b', ...HERE } });
  const [MIRROR, PUSH] = asKeys<RuleKey>(['mirrors:a', 'push:b']) as [RuleKey, RuleKey];
  const leaving = (key: RuleKey): Claimed[] =>
    leavingClaims({ key, title: key, rank: '' }, [TARGET], userCause('Suspended', ''));
  const COPYING = claim(MIRROR, 'own', TARGET, asKey('c:Secret/home/db'));
  const rows: readonly (readonly [string, Claims, readonly RuleKey[]])[] = [
    ['that nobody claims has all of them', claimsOf(), [MIRROR, PUSH]],
    ['is first of the one that claims it', claimsOf(claim(PUSH, 'own')), [PUSH, MIRROR]],
    ['is first of the one that releases it', claimsOf(claim(PUSH, 'release')), [PUSH, MIRROR]],
    ['is rather of the one that claims it', claimsOf(claim(MIRROR, 'release'), claim(PUSH, 'own')), [PUSH, MIRROR]],
    ['is rather of the one that leaves it as it is', claimsOf(COPYING, ...leaving(PUSH)), [PUSH, MIRROR]],
    ['is rather of the one that keeps it without a source', claimsOf(COPYING, claim(PUSH, 'own')), [PUSH, MIRROR]],
  ];
  for (const [title, claims, expected] of rows) {
    it(`an object with the marks of several rules ${title}`, () => {
      assert.deepEqual(claims.ownersOf(JOINT, TARGET), expected);
    });
  }

  it('is filed under each of them, in any order of events, as a process does that starts with the same objects', () => {
    const values = fc.option(fc.constantFrom('a', 'b'), { nil: undefined });
    const object = fc.option(
      fc.record({ mirrors: values, push: values, at: fc.constantFrom('team/db', 'other/db', undefined) }),
      { nil: undefined },
    );
    const targets = asKeys<ResourceKey>(['c:Secret/team/db', 'c:Secret/other/db']);
    const rules = asKeys<RuleKey>(['mirrors:a', 'mirrors:b', 'push:a', 'push:b']);
    const event = fc.record({ target: fc.constantFrom(...targets), object, claimed: fc.constantFrom(...rules) });
    const filed = (claims: Claims): string[] =>
      rules.map((rule) => `${rule} ${[...claims.ownedBy(rule)].toSorted().join(' ')}`);
    fc.assert(
      fc.property(fc.array(event, { maxLength: 12 }), (events) => {
        const claims = claimsOf();
        const present = new Map<ResourceKey, Observed>();
        for (const { target, object: marks, claimed } of events) {
          claims.book.replace(claimed, [claim(claimed, 'own', target)], []);
          const after = marks && observedObject({ annotations: annotationsOf(marks) });
          const was = rules.filter((rule) => [...claims.ownedBy(rule)].includes(target));
          const { lost } = claims.objectChanged(target, present.get(target), after);
          if (after === undefined) present.delete(target);
          else present.set(target, after);
          const is = rules.filter((rule) => [...claims.ownedBy(rule)].includes(target));
          assert.deepEqual(
            [...lost].toSorted(),
            was.filter((rule) => !is.includes(rule)),
          );
          const counts = marks?.at === target.slice('c:Secret/'.length);
          const named = counts ? [`mirrors:${marks.mirrors}`, `push:${marks.push}`] : [];
          assert.deepEqual(
            is,
            rules.filter((rule) => named.includes(rule)),
          );
        }
        const restarted = claimsOf();
        for (const [target, observed] of present) restarted.objectChanged(target, undefined, observed);
        assert.deepEqual(filed(restarted), filed(claims));
        assert.deepEqual([...restarted.owners].toSorted(), [...claims.owners].toSorted());
      }),
    );
  });

  it('stays as long as the longest grace of the rules that let it go', () => {
    for (const order of [
      [MIRROR, PUSH],
      [PUSH, MIRROR],
    ]) {
      const claims = new Claims(() => 0);
      for (const controller of CONTROLLERS)
        claims.add(controller.name === 'push' ? { ...controller, graceMs: () => 9000 } : controller);
      claims.objectChanged(TARGET, undefined, JOINT);
      for (const key of order) claims.book.replace(key, [claim(key, 'own')], []);
      for (const key of order) claims.put(key, undefined);
      assert.equal(claims.graceLeft(MIRROR, TARGET), 9000);
    }
  });

  it('is no undeleted copy while one of them wants it; else it is one of each', () => {
    const joint = { ...JOINT, ownAnnotations: [PLACE_ANNOTATION] };
    const refused: Outcome = { state: 'error', ...userCause('Forbidden', 'refused') };
    const claims = claimsOf(claim(PUSH, 'own'));
    claims.objectChanged(TARGET, undefined, joint);
    claims.settleUndeleted(TARGET, joint, refused);
    assert.deepEqual(claims.undeletedOf(MIRROR), []);
    claims.book.replace(PUSH, [], []);
    assert.deepEqual(claims.settleUndeleted(TARGET, joint, refused), [MIRROR, PUSH]);
    for (const rule of [MIRROR, PUSH]) assert.equal(claims.undeletedOf(rule).length, 1);
  });
});

function annotationsOf({
  mirrors,
  push,
  at,
}: Readonly<Record<'mirrors' | 'push' | 'at', string | undefined>>): Record<string, string> {
  return {
    ...(mirrors === undefined ? {} : { mirrors }),
    ...(push === undefined ? {} : { push }),
    ...(at === undefined ? {} : { [PLACE_ANNOTATION]: at }),
  };
}

describe('a copy of an original whose rule is gone', () => {
  const MARK = { push: 'a', [VERSION]: '1' };
  const known = (...claimed: readonly Claimed[]): Claims => claimsOf(...claimed);
  const withRule = (rule: string): Claims => {
    const claims = known();
    const key: RuleKey = asKey(rule);
    claims.put(key, { owner: { key, title: rule, rank: '' }, version: '1', claims: [], sources: [] });
    return claims;
  };
  const dependsOn = (claims: Claims): Claims => {
    claims.book.replace(asKey('push:reader'), [], [TARGET]);
    return claims;
  };
  const rows: readonly (readonly [string, Partial<Observed>, Claims, string | undefined])[] = [
    ['that looks wholly like one goes', { annotations: MARK }, known(), 'goes'],
    ['without the bookkeeping of the original stays', { annotations: { push: 'a' } }, known(), 'no version'],
    [
      'of a controller whose original leaves no whole marks stays',
      { annotations: { mirrors: 'a', [VERSION]: '1' } },
      known(),
      'only its rule could tell whether it is a copy',
    ],
    ['whose rule exists and does not want it stays', { annotations: MARK }, withRule('push:a'), 'its rule exists'],
    ['goes although another rule wants its name', { annotations: MARK }, known(claim(asKey('push:b'), 'own')), 'goes'],
    [
      'that is the source of a copy stays',
      { annotations: MARK },
      known(claim(asKey('push:b'), 'own', asKey('c:Secret/x/db'), TARGET)),
      'it is the source of other copies',
    ],
    [
      'that another object is filled from stays',
      { annotations: MARK },
      known(claim(asKey('push:b'), 'fill', asKey('c:Secret/x/db'), TARGET)),
      'it is the source of other copies',
    ],
    [
      'that a rule without targets reads stays',
      { annotations: MARK },
      dependsOn(known()),
      'it is the source of other copies',
    ],
    ['that a rule fills stays', { annotations: MARK }, known(claim(asKey('push:b'), 'fill')), 'push:b fills it'],
    [
      'that cannot be read whole stays',
      { annotations: MARK, trimmed: true },
      known(),
      'its labels and annotations are too long to be read',
    ],
    [
      'with the mark of another original, too, stays if that one says so',
      { annotations: { ...MARK, mirrors: 'x' } },
      known(),
      'only its rule could tell whether it is a copy',
    ],
    ['that its rule claims is none', { annotations: MARK }, known(claim(asKey('push:a'), 'own')), undefined],
    ['with its place is none', { annotations: { ...MARK, ...HERE } }, known(), undefined],
    ['with the place of another object is none', { annotations: { ...MARK, ...ELSEWHERE } }, known(), undefined],
    ['without a mark is none', { annotations: { [VERSION]: '1' } }, known(), undefined],
  ];
  for (const [title, given, claims, fate] of rows) {
    it(`a copy of an original ${title}`, () => {
      const copy = observedObject(given);
      const left = claims.leftoverOf(copy, TARGET);
      assert.equal(left && (left.keptBecause ?? 'goes'), fate);
    });
  }

  it('without --adopt-orphans its mark does not count; with it, it counts for the deletion and in the index', () => {
    const copy = observedObject({ annotations: MARK });
    const kept = observedObject({ annotations: { push: 'a' } });
    for (const adopts of [false, true]) {
      const claims = new Claims(undefined, adopts);
      for (const controller of CONTROLLERS) claims.add(controller);
      const owner = adopts ? 'push:a' : undefined;
      assert.equal(claims.ownersOf(copy, TARGET)[0], owner);
      assert.equal(claims.objectChanged(TARGET, undefined, copy).isMarked, adopts);
      assert.deepEqual([...claims.ownedBy(asKey('push:a'))], adopts ? [TARGET] : []);
      assert.deepEqual(claims.objectChanged(TARGET, copy, kept).lost, adopts ? ['push:a'] : []);
      assert.equal(claims.ownersOf(kept, TARGET)[0], undefined);
      assert.deepEqual([...claims.ownedBy(asKey('push:a'))], []);
    }
  });
});

describe('a source of copies', () => {
  it('a rule that makes copies of a source uses the source, even if the rule has no target yet', () => {
    assert.equal(claimsOf(USER).book.userOf(TARGET), 'mirrors:user');
    const waiting = claimsOf().book;
    waiting.replace(asKey('mirrors:waiting'), [], [TARGET]);
    assert.equal(waiting.userOf(TARGET), 'mirrors:waiting');
  });

  it('a rule that only fills objects from a source does not use the source', () => {
    const filling = claimsOf().book;
    filling.replace(asKey('push:a'), [claim(asKey('push:a'), 'fill', asKey('c:Secret/next/db'), TARGET)], [TARGET]);
    assert.equal(filling.userOf(TARGET), undefined);
  });

  it('a source is reported as unused when the last rule that uses it ends, and not before', () => {
    const claims = claimsOf(USER).book;
    claims.replace(asKey('mirrors:waiting'), [], [TARGET]);
    assert.deepEqual(claims.replace(asKey('mirrors:user'), [], []).unusedSources, []);
    assert.deepEqual(claims.replace(asKey('mirrors:waiting'), [], []).unusedSources, [TARGET]);
  });
});

describe('a copy that could not be deleted', () => {
  const RULE: RuleKey = asKey('mirrors:a');
  const COPY = observedObject({ annotations: { mirrors: 'a', ...HERE }, ownAnnotations: [PLACE_ANNOTATION] });
  const REFUSED: Outcome = { state: 'error', ...userCause('Forbidden', 'refused') };
  const withCopy = (copy: Observed = COPY, ...claimed: readonly Claimed[]): Claims => {
    const claims = claimsOf(...claimed);
    claims.objectChanged(TARGET, undefined, copy);
    return claims;
  };

  it('a copy that could not be deleted is reported for the rule in its mark, once, until it is gone or the next try succeeds', () => {
    const claims = withCopy();
    assert.deepEqual(claims.undeletedOf(RULE), []);
    assert.deepEqual(claims.settleUndeleted(TARGET, COPY, REFUSED), [RULE]);
    assert.deepEqual(claims.settleUndeleted(TARGET, COPY, REFUSED), [], 'nothing new');
    assert.deepEqual(claims.undeletedOf(RULE), [{ target: TARGET, outcome: REFUSED }]);
    assert.deepEqual(claims.settleUndeleted(TARGET, COPY, undefined), [RULE]);
    assert.deepEqual(claims.undeletedOf(RULE), []);
    claims.settleUndeleted(TARGET, COPY, REFUSED);
    claims.objectChanged(TARGET, COPY, undefined);
    claims.objectChanged(TARGET, undefined, COPY);
    assert.deepEqual(claims.undeletedOf(RULE), []);
  });

  it('a failed try to write a copy that its rule wants is no undeleted copy', () => {
    const claims = withCopy(COPY, claim(RULE, 'own'));
    claims.settleUndeleted(TARGET, COPY, REFUSED);
    assert.deepEqual(claims.undeletedOf(RULE), []);
    claims.book.replace(RULE, [], []);
    assert.deepEqual(claims.undeletedOf(RULE), [], 'its deletion was not tried yet');
    claims.settleUndeleted(TARGET, COPY, REFUSED);
    claims.book.replace(RULE, [claim(RULE, 'own')], []);
    assert.deepEqual(claims.undeletedOf(RULE), [], 'the rule wants it again');
  });

  it("an object whose place another client wrote is not reported for the rule in its mark, which may be another user's", () => {
    const forged = observedObject({ annotations: COPY.annotations });
    const claims = withCopy(forged);
    assert.deepEqual(claims.settleUndeleted(TARGET, forged, REFUSED), []);
    assert.deepEqual(claims.undeletedOf(RULE), []);
  });
});
