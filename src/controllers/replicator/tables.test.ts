/** The rules of k8s-replicator v1.3.0 as tables: permissions, inherited permissions, replicate-once, and targets. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { LeftOut } from '../common/namespaces/left-out.ts';
import { Reach } from '../common/namespaces/reach.ts';
import { PatternCache } from '../../runtime/text/name-patterns.ts';
import {
  type Annotations,
  annotationNames,
  isReplicatorAnnotation,
  pushedBy,
  type RuleSettings,
  sourcePath,
  unknownAnnotations,
} from './words.ts';
import { isFrozen } from './shape.ts';
import { inheritance, permission } from './permission.ts';
import { readRule, readTargets, targetsIn } from './targets.ts';
import { within, withinCpu } from '../../../test/support/yardstick.ts';

const names = annotationNames('k8s-replicator');
const rules = (allowAll: boolean): RuleSettings => {
  return { names, allowAll, ignoreUnknown: false, createWithLabels: {}, patterns: new PatternCache('full') };
};

/** The annotations of a row, which has short names: `from` for `replicate-from`. */
function annotations(row: Readonly<Partial<Record<keyof typeof names, string>>>): Annotations {
  return Object.fromEntries(Object.entries(row).map(([key, value]) => [names[key as keyof typeof names], value]));
}

type Row = Parameters<typeof annotations>[0];

describe('annotations', () => {
  it('a prefix gives the same annotation names with and without its slash; the empty prefix gives names without a prefix', () => {
    assert.equal(annotationNames('p').from, 'p/replicate-from');
    assert.deepEqual(annotationNames('p/'), annotationNames('p'));
    assert.equal(annotationNames('').from, 'replicate-from');
  });

  it('unknownAnnotations() finds annotations with the prefix and an unknown name; if the prefix is empty, it finds none', () => {
    const values = { 'k8s-replicator/replicate-too': '', 'k8s-replicator/x': '', 'other/x': '', [names.from]: '' };
    assert.deepEqual(unknownAnnotations(names, values), ['k8s-replicator/replicate-too', 'k8s-replicator/x']);
    assert.deepEqual(unknownAnnotations(annotationNames(''), values), []);
    assert.deepEqual(unknownAnnotations(names, { [names.version]: '', [names.once]: '' }), []);
  });

  it('an annotation counts if it has the prefix or, with an empty prefix, a known name', () => {
    assert.equal(isReplicatorAnnotation(names, 'k8s-replicator/anything'), true);
    assert.equal(isReplicatorAnnotation(names, 'k8s-replicator2/replicate-to'), false);
    assert.equal(isReplicatorAnnotation(annotationNames(''), 'replicate-to'), true);
    assert.equal(isReplicatorAnnotation(annotationNames(''), 'other'), false);
  });

  const home = { namespace: 'home', name: 'self' };
  for (const [value, path] of [
    ['a/b', 'a/b'],
    ['b', 'home/b'],
    ['self', undefined],
    ['home/self', undefined],
    ['a/b/c', undefined],
    ['', undefined],
    ['/b', undefined],
    ['a/', undefined],
    ['A/b', undefined],
    ['a.*/b', undefined],
    ['..', undefined],
    ['../b', undefined],
    ['a/..', undefined],
    ['a/.', undefined],
  ] as const) {
    it(`replicate-from ${JSON.stringify(value)} on home/self ${path === undefined ? 'is ill-formed' : `names ${path}`}`, () => {
      const read = sourcePath(names, home, value);
      assert.equal(typeof read === 'object' ? undefined : read, path);
      if (typeof read === 'object') assert.match(read.message, /k8s-replicator\/replicate-from/);
    });
  }

  for (const [mark, by] of [
    ['a/b', 'a/b'],
    ['home/self', undefined],
    ['', undefined],
    ['b', undefined],
    ['b/', undefined],
    ['a/b/c', undefined],
    ['a/..', undefined],
    ['../b', undefined],
    ['A/b', undefined],
  ] as const) {
    it(`the annotation replicated-by: ${mark} of the object home/self means the source ${by ?? '(none)'}`, () => {
      const { namespace, name } = pushedBy(names, home, annotations({ by: mark })) ?? {};
      assert.equal(name === undefined ? undefined : `${namespace}/${name}`, by);
    });
  }
});

describe('permission to pull into target-ns/target', () => {
  const table: readonly [string, boolean, Row, string, 'allowed' | 'denied' | 'cancelled' | 'loop'][] = [
    ['the source has no annotations', false, {}, 'target-ns', 'denied'],
    ['the source has no annotations, with --allow-all', true, {}, 'target-ns', 'allowed'],
    ['replication-allowed is false', true, { allowed: 'false' }, 'target-ns', 'denied'],
    ['replication-allowed is neither true nor false', true, { allowed: 'other' }, 'target-ns', 'cancelled'],
    ['only another namespace is listed', true, { allowedNamespaces: 'other-ns' }, 'target-ns', 'denied'],
    ['the list has only an invalid pattern', true, { allowedNamespaces: '(((' }, 'target-ns', 'cancelled'],
    ['replication-allowed is true', false, { allowed: 'true' }, 'target-ns', 'allowed'],
    ['the namespace is listed', false, { allowedNamespaces: 'target-ns' }, 'target-ns', 'allowed'],
    [
      'replication-allowed is true, and the namespace is listed',
      false,
      { allowed: 'true', allowedNamespaces: 'target-ns' },
      'target-ns',
      'allowed',
    ],
    [
      'replication-allowed is true, but another namespace is listed',
      false,
      { allowed: 'true', allowedNamespaces: 'other-ns' },
      'target-ns',
      'denied',
    ],
    ['a pattern in its list matches', false, { allowedNamespaces: 'number-[0-9]+' }, 'number-123', 'allowed'],
    ['the pattern does not match', false, { allowedNamespaces: 'number-[0-9]+' }, 'number-abc', 'denied'],
    [
      'a pattern must match from the start of the name',
      false,
      { allowedNamespaces: 'number-[0-9]+' },
      'x-number-1',
      'denied',
    ],
    ['a pattern must match to the end of the name', false, { allowedNamespaces: '(abc|def)' }, 'def-x', 'denied'],
    ['the namespace is in the list', false, { allowedNamespaces: 'abc,def,ghi' }, 'def', 'allowed'],
    ['the namespace is not in the list', false, { allowedNamespaces: 'abc,def,ghi' }, 'xyz', 'denied'],
    ['one of several patterns matches', false, { allowedNamespaces: 'abc-[0-9]+,def-[0-9]+' }, 'def-123', 'allowed'],
    ['none of several patterns matches', false, { allowedNamespaces: 'abc-[0-9]+,def-[0-9]+' }, 'def-abc', 'denied'],
    [
      'a name in a list with patterns matches',
      false,
      { allowedNamespaces: 'number-other,number-[0-9]+' },
      'number-other',
      'allowed',
    ],
    [
      'a pattern in a list with names matches',
      false,
      { allowedNamespaces: 'number-other,number-[0-9]+' },
      'number-123',
      'allowed',
    ],
    ['the list is empty', false, { allowed: 'true', allowedNamespaces: '' }, 'target-ns', 'denied'],
    [
      'a dot is part of a name, so the item is no pattern',
      false,
      { allowedNamespaces: 'target.ns' },
      'target-ns',
      'denied',
    ],
    ['an invalid pattern comes after the match', false, { allowedNamespaces: 'target-ns,(((' }, 'target-ns', 'allowed'],
    [
      'the source is a copy with an invalid inherited list',
      false,
      { allowed: 'true', from: 'o/o', inherited: '(((' },
      'target-ns',
      'cancelled',
    ],
    [
      'the source has an inherited list, but is no copy',
      false,
      { allowed: 'true', inherited: '(((' },
      'target-ns',
      'allowed',
    ],
    ['the source is a copy without an inherited list', false, { allowed: 'true', from: 'o/o' }, 'target-ns', 'denied'],
    [
      'the source is a copy, and its inherited list has the namespace',
      false,
      { allowed: 'true', from: 'o/o', inherited: 'one,target-ns' },
      'target-ns',
      'allowed',
    ],
    [
      'the source is a copy, and its inherited list lacks the namespace',
      false,
      { allowed: 'true', from: 'o/o', inherited: 'one,two' },
      'target-ns',
      'denied',
    ],
    [
      'the source is a copy, and its inherited list allows nothing',
      false,
      { allowed: 'true', from: 'o/o', inherited: '-' },
      'target-ns',
      'denied',
    ],
    [
      'the source is a copy of the target',
      false,
      { allowed: 'true', from: 'o/o', inherited: '.*', origin: 'target-ns/target' },
      'target-ns',
      'loop',
    ],
  ];
  for (const [title, allowAll, row, namespace, summary] of table) {
    it(`a pull from source-ns into ${namespace} is ${summary === 'loop' ? 'a loop' : summary}: ${title}`, () => {
      const source = { namespace: 'source-ns', name: 'source' };
      const answer = permission(
        rules(allowAll),
        { namespace, name: 'target' },
        `${source.namespace}/${source.name}`,
        annotations(row),
      );
      assert.equal(answer?.result ?? 'allowed', summary);
      if (answer !== undefined) assert.match(answer.refusal.message, /source-ns\/source/);
      if (answer !== undefined) assert.match(answer.refusal.message, /k8s-replicator\//);
    });
  }
});

describe('an object with replicate-to and replicate-from', () => {
  const home = { namespace: 'my-ns', name: 'me' };
  const settings = rules(false);
  const table: readonly [string, Row, 'push' | 'pull' | 'broken' | undefined][] = [
    ['has no annotations', {}, undefined],
    ['has replicate-from', { from: 'a/b' }, 'pull'],
    ['has replicate-to', { to: 'a/b' }, 'push'],
    ['has replicate-to and replicate-from', { to: 'a/b', from: 'a/c' }, 'push'],
    ['has an empty replicate-to, and replicate-from', { to: '', from: 'a/c' }, 'push'],
    ['has replicate-to, and names itself in replicate-from', { to: 'a/b', from: 'me' }, 'broken'],
    ['is a copy with replicate-to', { by: 'a/b', to: 'a/c' }, undefined],
    ['is a copy with replicate-to and replicate-from', { by: 'a/b', to: 'a/c', from: 'a/d' }, 'pull'],
    ['has replicate-to, and names itself in its mark', { by: 'my-ns/me', to: 'a/c' }, 'push'],
    ['has an invalid target', { to: 'A', from: 'a/c' }, 'broken'],
    [
      'has replicate-to, and an invalid list that its copies would inherit',
      { to: 'a/b', allowedNamespaces: '(((' },
      'broken',
    ],
    [
      'has replicate-to, and an invalid replication-allowed that its copies would inherit',
      { to: 'a/b', allowed: 'yes' },
      'broken',
    ],
  ];
  for (const [title, row, kind] of table) {
    it(`an object that ${title} is ${kind === undefined ? 'no rule' : `a ${kind} rule`}`, () => {
      assert.equal(readRule(settings, home, annotations(row))?.kind, kind);
    });
  }

  it('an object with a mistake in each annotation is refused with all of them', () => {
    const row = { to: 'A', from: 'a/b/c', allowed: 'yes' };
    const misspelled = { [`${settings.names.to}s`]: 'x' };
    const rule = readRule(settings, home, { ...annotations(row), ...misspelled });
    assert.ok(rule?.kind === 'broken');
    const { reason, message } = rule.refusal;
    assert.equal(reason, 'UnknownAnnotation');
    for (const part of [/unknown annotation/, /"A"/, /"a\/b\/c"/, /"yes"/]) assert.match(message, part);
  });
});

describe('the permission that a copy passes on', () => {
  const from = 'o/o';
  const table: readonly [string, Row, string][] = [
    ['a source that is no copy and has no list', {}, '.*'],
    ['a source that is no copy and has a list', { allowedNamespaces: 'test-1,test-2' }, 'test-1,test-2'],
    ['a copy without an inherited list', { from }, '-'],
    ['a copy without a list of its own', { from, inherited: 'test-2,test-3' }, 'test-2,test-3'],
    ['a copy with two lists', { from, allowedNamespaces: 'test-1,test-2', inherited: 'test-2,test-3' }, 'test-2'],
    [
      'a copy with two lists that have nothing in common',
      { from, allowedNamespaces: 'test-1', inherited: 'test-3' },
      '-',
    ],
    [
      'a copy with a list of its own and the inherited list .*',
      { from, allowedNamespaces: 'a,b.*', inherited: '.*' },
      'a,b.*',
    ],
    ['a copy with two different patterns', { from, allowedNamespaces: 'a.*', inherited: '.*b' }, '-'],
    ['a copy with the same pattern in both lists', { from, allowedNamespaces: 'a.*,x', inherited: 'a.*,y' }, 'a.*'],
    [
      'a copy with names that match patterns of the other list, and with invalid patterns',
      { from, allowedNamespaces: 'test-1,.*-2,test-3,*-3,test-4', inherited: 'test-2,.*-4,test-5,*-5' },
      'test-2,test-4',
    ],
  ];
  for (const [title, row, list] of table) {
    it(`a copy of ${title} passes on the permission ${list}`, () => {
      const found = inheritance(rules(false), annotations(row));
      assert.deepEqual(found.split(',').sort(), list.split(',').sort());
    });
  }
});

describe('lists of the maximum length', () => {
  const many = (size: number, item: (index: number) => string): string =>
    Array.from({ length: size }, (_, index) => item(index)).join(',');
  const quick = <T>(work: () => T): T => withinCpu(1000, 'a long list', work);
  const from = 'o/o';

  it('two lists of maximum length are intersected within a second of CPU time; the result never has a name that one list lacks', () => {
    const own = many(20_000, (index) => `a${index}`);
    for (const inherited of [many(20_000, (index) => `b${index}`), many(20_000, (index) => `a${index}.*`)]) {
      const row = annotations({ from, allowedNamespaces: `${own},both`, inherited: `both,${inherited}` });
      assert.equal(
        quick(() => inheritance(rules(false), row)),
        'both',
      );
    }
  });

  it('a list of maximum length with 20,000 patterns is refused within a second of CPU time', () => {
    const row = annotations({ allowedNamespaces: many(20_000, (index) => `b${index}.*`) });
    const place = { namespace: 'a', name: 'a' };
    const answer = quick(() => permission(rules(false), place, `${place.namespace}/${place.name}`, row));
    assert.equal(answer?.result, 'cancelled');
    const pushing = annotations({ to: 'x', allowedNamespaces: many(20_000, (index) => `b${index}.*`) });
    const settings = rules(false);
    assert.equal(quick(() => readRule(settings, place, pushing))?.kind, 'broken');
  });

  it('a list of maximum length with 20,000 names allows a namespace within a second of CPU time', () => {
    const row = annotations({ allowedNamespaces: `${many(20_000, (index) => `b${index}`)},a` });
    const place = { namespace: 'a', name: 'a' };
    assert.equal(
      quick(() => permission(rules(false), place, `${place.namespace}/${place.name}`, row)),
      undefined,
    );
  });

  it('20,000 names in 20,000 namespaces are refused within a second of CPU time: the targets are counted, not listed', () => {
    const home = { namespace: 'a', name: 'a' };
    const read = (row: Row): ReturnType<typeof readTargets> =>
      quick(() => readTargets(names, new PatternCache('full'), home, annotations(row)));
    const ofNames = many(20_000, (index) => `b${index}`);
    for (const [row, message] of [
      [
        { to: ofNames, toNamespaces: ofNames },
        /replicate-to .*400000000 targets \(20000 names × 20000 namespaces\) are more than the limit of 10000/,
      ],
      [{ toNamespaces: ofNames }, /replicate-to-namespaces .*20000 targets .*are more than/],
      [{ to: many(10_001, (index) => `n/b${index}`) }, /: 10001 targets are more than/],
      [
        { to: `x/y,${many(100, (index) => `b${index}`)}`, toNamespaces: many(100, (index) => `c${index}`) },
        /10001 targets are more than/,
      ],
    ] as const) {
      const answer = read(row);
      assert.ok(answer !== undefined && 'reason' in answer && answer.reason === 'IllFormed');
      assert.match(answer.message, message);
    }
    const most = read({ to: many(100, (index) => `b${index}`), toNamespaces: many(100, (index) => `c${index}`) });
    assert.ok(most !== undefined && 'named' in most && most.named === 10_000);
  });

  it('patterns that select more than 10,000 targets are refused within a second; the source itself does not count', async () => {
    let home = { namespace: 'a', name: 'a' };
    const there = Array.from({ length: 5000 }, (_, index) => `ns-${index}`);
    const namespaces = { names: () => there, has: (name: string) => there.includes(name), factsOf: () => undefined };
    const count = async (row: Row): Promise<number | string> => {
      const read = readTargets(names, new PatternCache('full'), home, annotations(row));
      assert.ok(read !== undefined && 'named' in read);
      const search = () => targetsIn(read, home, namespaces, new Reach(), new LeftOut(home.namespace));
      const found = await within(1000, 'a long list', search);
      return 'reason' in found ? found.message : found.size;
    };
    assert.equal(await count({ toNamespaces: '.*' }), 5000);
    assert.equal(await count({ to: 'a,b', toNamespaces: 'ns-.*' }), 10_000);
    home = { namespace: 'ns-0', name: 'a' };
    assert.equal(await count({ to: 'a,b,ns-1/c', toNamespaces: 'ns-.*' }), 10_000);
    assert.match(
      String(await count({ to: 'a,b,ns-[12]/c', toNamespaces: 'ns-.*' })),
      /more targets than the limit of 10000/,
    );
    home = { namespace: 'a', name: 'a' };
    assert.match(
      String(await count({ to: 'a,b,c', toNamespaces: '.*' })),
      /replicate-to .*more targets than the limit of 10000/,
    );
    assert.match(String(await count({ to: '.*/a,ns.*/b,.+/c' })), /more targets than the limit of 10000/);
  });
});

describe('replicate-once', () => {
  const version = 'other';
  const table: readonly [string, Row, Row, boolean | 'refused'][] = [
    ['on neither object, and no copy yet', {}, {}, false],
    ['with a bad value on the source', { once: 'other' }, { version }, 'refused'],
    ['with a bad value on the target', {}, { once: 'other', version }, 'refused'],
    ['on neither object', {}, { version }, false],
    ['on the source', { once: 'true' }, { version }, true],
    ['on the target', {}, { once: '1', version }, true],
    ['false on both', { once: 'false' }, { once: 'F', version }, false],
    ['on the source, and no copy yet', { once: 'true' }, {}, false],
    ['on the target, and no copy yet', {}, { once: 'true' }, false],
    [
      'on the target, and a first replicate-once-version on the source',
      { onceVersion: 'new' },
      { once: 'true', version },
      false,
    ],
    [
      'on the target, and another replicate-once-version on the source',
      { onceVersion: 'older' },
      { once: 'true', version, onceVersion: 'later' },
      false,
    ],
    [
      'on the source, and the same replicate-once-version on both',
      { once: 'true', onceVersion: 'v' },
      { version, onceVersion: 'v' },
      true,
    ],
    ['on the source, whose replicate-once-version was removed', { once: 'true' }, { version, onceVersion: 'v' }, true],
  ];
  for (const [title, source, target, frozen] of table) {
    it(`replicate-once ${title}: the data ${frozen === true ? 'stays' : frozen === false ? 'is copied' : 'is not changed, because the value is invalid'}`, () => {
      const answer = isFrozen(names, annotations(source), annotations(target));
      assert.equal(typeof answer === 'object' ? 'refused' : answer, frozen);
    });
  }
});

describe('targets of my-ns/me', () => {
  const home = { namespace: 'my-ns', name: 'me' };
  /** The namespaces of the cluster. A row has replicate-to, replicate-to-namespaces and targets; `null`: ill-formed. */
  const NAMESPACES = ['my-ns', 'a', 'b', 'ab-1', 'ab-2', 'ns-'];
  const table: readonly [string | undefined, string | undefined, readonly string[] | null][] = [
    [undefined, undefined, []],
    ['', undefined, []],
    [undefined, '', []],
    ['', '', []],
    ['x', undefined, ['my-ns/x']],
    ['x,y', undefined, ['my-ns/x', 'my-ns/y']],
    ['x,,x', undefined, ['my-ns/x']],
    ['me', undefined, []],
    ['my-ns/me,x', undefined, ['my-ns/x']],
    [undefined, 'a', ['a/me']],
    [undefined, 'a,b', ['a/me', 'b/me']],
    [undefined, 'my-ns,a', ['a/me']],
    [undefined, 'ab-[0-9]', ['ab-1/me', 'ab-2/me']],
    [undefined, 'b-[0-9]', []],
    [undefined, '.*', ['a/me', 'ab-1/me', 'ab-2/me', 'b/me', 'ns-/me']],
    [undefined, 'ns.', ['ns./me']],
    ['x,y', 'a,b', ['a/x', 'a/y', 'b/x', 'b/y']],
    ['x', 'a,ab-.', ['a/x', 'ab-./x']],
    ['x', 'a,ab-.+', ['a/x', 'ab-1/x', 'ab-2/x']],
    ['a/x', undefined, ['a/x']],
    ['a/x', 'b', ['a/x']],
    ['a/x,y', 'b', ['a/x', 'b/y']],
    ['a/x,y', undefined, ['a/x', 'my-ns/y']],
    ['ab-[12]/x', undefined, ['ab-1/x', 'ab-2/x']],
    ['ab-[12]/x,y', 'a|b', ['a/y', 'ab-1/x', 'ab-2/x', 'b/y']],
    ['a/x,[ab]/x,a/x', 'a', ['a/x', 'b/x']],
    ['x y', undefined, null],
    [' x', undefined, null],
    ['X', undefined, null],
    ['..', undefined, null],
    ['a/..', undefined, null],
    ['../x', undefined, ['../x']],
    [undefined, 'A', []],
    ['x.*', undefined, null],
    ['a/b/c', undefined, null],
    ['/x', undefined, null],
    ['a/', undefined, null],
    ['a/X', undefined, null],
    ['(((/x', undefined, null],
    [undefined, 'a/b', null],
    [undefined, '(((', null],
    [undefined, '[abc,ghi]', null],
    [undefined, 'a{1,3}', []],
    ['x', 'b,(((', null],
  ];
  for (const [to, toNamespaces, targets] of table) {
    it(`on my-ns/me, replicate-to ${to === undefined ? 'absent' : JSON.stringify(to)} and replicate-to-namespaces ${toNamespaces === undefined ? 'absent' : JSON.stringify(toNamespaces)} ${targets === null ? 'are ill-formed' : `have the targets [${targets.join(' ')}]`}`, async () => {
      const row = { ...(to === undefined ? {} : { to }), ...(toNamespaces === undefined ? {} : { toNamespaces }) };
      const read = readTargets(names, new PatternCache('full'), home, annotations(row));
      if (read !== undefined && 'reason' in read) {
        assert.equal(targets, null, read.message);
        assert.match(read.message, /k8s-replicator\/replicate-to/);
        return;
      }
      // Named namespaces count as existing.
      const named = read?.groups.flatMap(({ namespaces }) => [...namespaces.names]) ?? [];
      const there = new Set([...NAMESPACES, ...named]);
      const namespaces = { names: () => there, has: (name: string) => there.has(name), factsOf: () => undefined };
      const leftOut = new LeftOut(home.namespace);
      const found = read && (await targetsIn(read, home, namespaces, new Reach(), leftOut));
      assert.ok(found === undefined || !('reason' in found));
      const all = new Set(found);
      assert.deepEqual([...all].sort(), targets === null ? null : [...targets].sort());
    });
  }

  it('a pattern of namespaces that is too complex is refused', () => {
    const read = readTargets(
      names,
      new PatternCache('full'),
      home,
      annotations({ toNamespaces: '((a|b){1,90}c){1,90}' }),
    );
    assert.ok(read !== undefined && 'reason' in read);
  });
});
