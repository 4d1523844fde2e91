/** The pure parts of the page: addresses, rows, filter, problems, folds, the feed, and other names for a report. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';

import type { PageData, PageMessage, PageRule } from '../../../ui/data.ts';
import { listAddress, namespaceAddress, objectAddress, routeOf } from '../../../ui/page/address.ts';
import { alikeColumns, linesOf } from '../../../ui/page/map-lines.ts';
import { modelOf, partOf, whoMay } from '../../../ui/page/model.ts';
import { problemsOf } from '../../../ui/page/problems.ts';
import { age, visible } from '../../../ui/page/words.ts';
import { Feed } from '../../../ui/server/feed.ts';
import { Sessions } from '../../../ui/server/guard.ts';
import { redacted } from '../../../ui/server/redact.ts';

const NO_FILTER = { q: '', state: '', sys: '' } as const;
type Failing = PageRule['failing'][number];

/** Any text, also with half a pair of UTF-16. */
const anyText = fc
  .array(fc.oneof(fc.integer({ min: 0, max: 0x7f }), fc.integer({ min: 0, max: 0xffff })))
  .map((units) => String.fromCharCode(...units));

const byFirst = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : 1);

/** A SecretMirror of namespace `home` with copies in `fine`, and failing targets. */
function rule(home: string, name: string, fine: readonly string[], failing: readonly Failing[] = []): PageRule {
  const place = { kind: 'SecretMirror', namespace: home, name };
  return {
    ...place,
    id: `mirrors SecretMirror ${home}/${name}`,
    system: 'mirrors',
    source: `secret ${home}/${name}`,
    destinations: ['.+'],
    elsewhere: [],
    state: 'Active',
    ready: failing.length === 0,
    reason: failing[0]?.reason ?? 'Active',
    message: '',
    lastSyncTime: null,
    copies: fine.map((namespace) => ({ kind: 'Secret', namespace, name, sourceVersion: '1' })),
    failing,
    warnings: [],
    from: { cluster: '', kind: 'Secret', namespace: home, name },
    since: null,
    refused: [],
  };
}

function failed(namespace: string, name: string, state: Failing['state'], reason: string): Failing {
  return { kind: 'Secret', namespace, name, state, reason, message: `${name} in ${namespace}` };
}

function data(rules: readonly PageRule[], more: Partial<PageData> = {}): PageData {
  const advice = {
    Conflict: { who: 'the owner', says: 'the object belongs to another owner', how: 'delete it' },
  } as const;
  const frame = { at: '', cluster: 'c', notes: [], orphans: [], ruleNames: '', requiresConsent: false };
  return { ...frame, namespaces: [], advice, rules, ...more };
}

describe('addresses of the page', () => {
  it('any text is an address, and no address throws', () => {
    fc.assert(fc.property(anyText, (text) => routeOf(text).view !== undefined));
    fc.assert(fc.property(fc.string(), (text) => routeOf(`#o/${text}/%/%E0%A4%A`).view === 'o'));
  });

  it('an address leads back to what it was made of', () => {
    const text = anyText.map((one) => one.toWellFormed());
    fc.assert(
      fc.property(text, text, text, text, (kind, namespace, name, cluster) => {
        const place = { kind, namespace, name, cluster };
        assert.partialDeepStrictEqual(routeOf(objectAddress(place)), { view: 'o', place });
        assert.partialDeepStrictEqual(routeOf(namespaceAddress(name)), { view: 'ns', place: { namespace: name } });
        const filter = { q: name, sys: kind, state: 'bad', order: 'alike', open: ['a', 'b'], lines: 1000 } as const;
        assert.partialDeepStrictEqual(routeOf(listAddress('map', filter)), { view: 'map', ...filter });
      }),
    );
    assert.equal(listAddress('table', NO_FILTER), '#table');
  });

  it('an unknown view, state or order is the overview without it', () => {
    for (const hash of ['', '#', '#x', '#map/state=constructor&order=__proto__', '#__proto__', '#map/'])
      assert.partialDeepStrictEqual(routeOf(hash), { view: 'map', ...NO_FILTER, order: 'name', open: [] }, hash);
  });
});

describe('texts of the page', () => {
  it('a text has no unseen character and no half of a pair when it is shown', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const shown = visible(text);
        assert.doesNotMatch(shown.replaceAll('\n', ''), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
        assert.ok(shown.isWellFormed());
      }),
    );
    assert.equal(visible('a\u202Eb\u0000'), 'a‹U+202E›b‹U+0000›');
  });

  it('an age has one unit', () => {
    const ages = [0, 59, 60, 3599, 3600, 47 * 3600, 48 * 3600].map((seconds) =>
      age('2026-01-01T00:00:00Z', new Date(Date.UTC(2026, 0, 1, 0, 0, seconds)).toISOString()),
    );
    assert.deepEqual(ages, ['0 s', '59 s', '1 min', '59 min', '1 h', '47 h', '2 days']);
  });
});

describe('the model of the page', () => {
  const wide = rule(
    'pki',
    'ca',
    ['a', 'b', 'c'],
    [failed('d', 'ca', 'conflict', 'Conflict'), failed('a', 'ca', 'pending', 'Outdated')],
  );
  const small = rule('web', 'key', ['a']);
  const model = modelOf(data([wide, small]));

  it('a cell has the worst state of its targets, and a target that exists but is out of date counts once', () => {
    const [row] = model.rows;
    assert.deepEqual([...(row?.cells ?? [])].toSorted(byFirst), [
      ['a', 'pending'],
      ['b', 'ok'],
      ['c', 'ok'],
      ['d', 'bad'],
    ]);
    assert.deepEqual([...model.counts].toSorted(byFirst), [
      ['bad', 1],
      ['ok', 3],
      ['pending', 1],
    ]);
    assert.equal(row?.state, 'bad');
  });

  it('a filter keeps the matching rows and columns', () => {
    const shown = (filter: object): [string[], readonly string[]] => {
      const { rows, columns } = partOf(model, { ...NO_FILTER, ...filter });
      return [rows.map((row) => row.rule.name), columns];
    };
    assert.deepEqual(shown({}), [
      ['ca', 'key'],
      ['a', 'b', 'c', 'd'],
    ]);
    assert.deepEqual(shown({ state: 'bad' }), [['ca'], ['d']]);
    assert.deepEqual(shown({ q: 'WEB/key' }), [['key'], ['a']]);
    assert.deepEqual(shown({ q: 'd' }), [['ca'], ['d']]);
    assert.deepEqual(shown({ sys: 'replicator' }), [[], []]);
    assert.deepEqual(shown({ q: 'constructor' }), [[], []]);
  });

  it('the row of an unchanged rule stays the same object', () => {
    assert.equal(modelOf(data([wide])).rows[0], model.rows[0]);
  });

  it('a namespace that accepts nobody, everybody or some says so, and one that may not be read is not empty', () => {
    const who = (more: Partial<PageData>): string => whoMay(data([], more), 'a');
    assert.match(who({ namespaces: [{ name: 'a' }] }), /^Rules of every namespace/);
    assert.match(who({ namespaces: [{ name: 'a' }], requiresConsent: true }), /^Only its own rules/);
    assert.match(who({ namespaces: [{ name: 'a', acceptFrom: 'team-.+' }] }), /accept-from: team-\.\+$/);
    assert.match(
      who({
        namespaces: [{ name: 'a', acceptFrom: 'x', closed: 'copies are not permitted by --excluded-namespaces' }],
      }),
      /^Nobody may copy/,
    );
    assert.match(who({ namespaces: null }), /^Not permitted/);
    assert.match(who({ namespaces: [] }), /does not exist/);
  });

  it('problems are the worst first, name who ends them, and an unknown reason shows the message alone', () => {
    const waits = rule(
      'x',
      'w',
      [],
      [failed('a', 'w', 'waiting', 'NoSecret'), failed('b', 'w', 'waiting', 'NoSecret')],
    );
    const all = problemsOf(modelOf(data([waits, small, wide])));
    assert.deepEqual(
      all.map(({ rows, state, what }) => [rows[0]?.rule.name, state, what]),
      [
        ['ca', 'bad', '1 copy is not made: the object belongs to another owner'],
        ['w', 'waiting', '2 copies wait: NoSecret'],
      ],
    );
    assert.deepEqual(
      [...all.map(({ reason }) => reason), 'constructor', '__proto__'].map((reason) => model.advice.get(reason)?.how),
      ['delete it', undefined, undefined, undefined],
    );
  });

  it('the rules of a ring are one problem', () => {
    const ring = (name: string, from: string, to: string): PageRule => ({
      ...rule('r', name, [], [failed('r', to, 'conflict', 'Cycle')]),
      from: { cluster: '', kind: 'Secret', namespace: 'r', name: from },
    });
    const all = problemsOf(
      modelOf(data([ring('one', 'a', 'b'), ring('two', 'b', 'c'), ring('three', 'c', 'a'), wide])),
    );
    assert.deepEqual(
      all.map(({ rows }) => rows.length).toSorted((a, b) => a - b),
      [1, 3],
    );
    assert.match(all.find(({ rows }) => rows.length === 3)?.what ?? '', /3 rules form a ring/);
  });
});

it('targets that no command reads are columns, with the state of their rule', () => {
  const vault = { cluster: 'vault.example', kind: 'Vault', namespace: '', name: 'kv/app' };
  const there = { cluster: 'management', kind: 'SyncSecret', namespace: '', name: 'uid' };
  const { columns, rows } = modelOf(data([{ ...rule('x', 'w', []), elsewhere: [vault, there] }]));
  assert.deepEqual(columns, ['Vault vault.example', 'management']);
  assert.deepEqual([...(rows[0]?.cells.values() ?? [])], ['ok', 'ok']);
});

describe('the lines of the map', () => {
  const same = ['a', 'b', 'c'];
  const rules = [
    ...Array.from({ length: 5 }, (_, at) => rule('platform', `wide-${at}`, same)),
    ...Array.from({ length: 6 }, (_, at) => rule(`team-${at}`, `small-${at}`, ['a'])),
    rule('pki', 'bad', same, [failed('d', 'bad', 'conflict', 'Conflict')]),
  ];
  const { rows } = modelOf(data(rules));

  it('healthy rules with few copies, and healthy rules with the same marks, are folded; a fold opens', () => {
    const lines = linesOf(rows, []);
    const texts = lines.map((line) => (line.type === 'rule' ? line.row.rule.name : line.text));
    assert.deepEqual(texts, [
      'platform',
      'wide-0',
      '4 rules alike',
      'other namespaces',
      'bad',
      '6 rules of mirrors with few copies',
    ]);
    const folds = lines.flatMap((line) => (line.type === 'fold' ? line.next : []));
    const opened = linesOf(rows, folds).filter((line) => line.type === 'rule');
    assert.equal(opened.length, rules.length);
    assert.equal(linesOf(rows, undefined).filter((line) => line.type === 'rule').length, rules.length);
  });

  it('columns that get the same stand together', () => {
    const { rows: some, columns } = modelOf(data([rule('x', 'one', ['a', 'c']), rule('x', 'two', ['b', 'd'])]));
    assert.match(alikeColumns(columns, some).join(''), /^(ac|ca)(bd|db)$|^(bd|db)(ac|ca)$/);
  });
});

describe('the server of the page, without HTTP', () => {
  it('whatever changes, and however slowly a page reads, the page has the data in the end', async () => {
    const version = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'constructor'), fc.nat(2), { noNullPrototype: true });
    const property = fc.asyncProperty(fc.array(fc.tuple(version, fc.boolean()), { minLength: 1 }), async (steps) => {
      const feed = new Feed();
      const lines = feed.lines();
      const has = new Map<string, PageRule>();
      let rules: PageRule[] = [];
      for (const [at, [made, isSlow]] of steps.entries()) {
        rules = Object.entries(made).map(([name, copies]) => rule('x', name, ['a', 'b'].slice(0, copies)));
        feed.put(data(rules));
        if (isSlow && at < steps.length - 1) continue;
        const message = await nextOf(lines);
        for (const id of message.gone) has.delete(id);
        for (const one of message.rules) has.set(one.id, one);
      }
      const byId = (a: PageRule, b: PageRule): number => (a.id < b.id ? -1 : 1);
      assert.deepEqual([...has.values()].toSorted(byId), rules.toSorted(byId));
    });
    await fc.assert(property);
  });

  it('what has not changed is not sent again: rules, and all that is no rule', async () => {
    const feed = new Feed();
    const lines = feed.lines();
    feed.put(data([rule('x', 'one', ['a']), rule('x', 'two', ['a'])]));
    assert.equal((await nextOf(lines)).rules.length, 2);
    feed.put(data([rule('x', 'one', ['a']), rule('x', 'two', ['b'])], { at: 'later' }));
    const { at, frame, rules, gone } = await nextOf(lines);
    assert.deepEqual([at, frame, rules.map(({ name }) => name), gone], ['later', undefined, ['two'], []]);
    feed.put(data([], { notes: ['new'] }));
    const last = await nextOf(lines);
    assert.deepEqual([last.frame?.notes, last.rules, last.gone.length], [['new'], [], 2]);
  });

  it('a lost connection is told once, with its beginning', async () => {
    const feed = new Feed();
    const lines = feed.lines();
    feed.put(data([]));
    const told = [(await nextOf(lines)).trouble];
    for (const message of ['down', 'down', 'refused', undefined, undefined]) {
      const before = told.at(-1)?.message;
      feed.setTrouble(message);
      if (message !== before) told.push((await nextOf(lines)).trouble);
    }
    const since = told[1]?.since;
    assert.notEqual(since, undefined);
    assert.deepEqual(told, [null, { since, message: 'down' }, { since, message: 'refused' }, null]);
  });

  it('a code is valid for 10 minutes, and the next one replaces it', () => {
    let now = 0;
    const sessions = new Sessions(() => now);
    const first = sessions.newCode();
    const second = sessions.newCode();
    assert.equal(sessions.redeem(first), undefined);
    now = 10 * 60_000;
    assert.equal(sessions.redeem(second), undefined);
    const token = sessions.redeem(sessions.newCode()) ?? '';
    assert.ok(sessions.knows(token));
    for (const other of ['', `${token}x`, token.slice(1)]) assert.ok(!sessions.knows(other));
  });

  it('a redacted report has the same shape and none of the names', () => {
    const before = data(
      [rule('secret-home', 'secret-name', ['secret-place'], [failed('secret-place-2', 'secret-name', 'error', 'Odd')])],
      {
        cluster: 'secret-host',
        notes: ['secret-note'],
        namespaces: [{ name: 'secret-place', acceptFrom: 'secret-home', closed: 'secret-limit' }],
        orphans: [
          {
            system: 'mirrors',
            kind: 'Secret',
            namespace: 'secret-place',
            name: 'secret-orphan',
            sourceVersion: '1',
            owner: 'secret-owner',
            reason: 'secret-reason of secret-name',
          },
        ],
      },
    );
    const after = redacted(before);
    assert.doesNotMatch(JSON.stringify(after), /secret-/);
    assert.deepEqual([...modelOf(after).counts], [...modelOf(before).counts]);
    const [one] = after.rules;
    assert.equal(one?.copies[0]?.namespace, after.namespaces?.[0]?.name);
    assert.equal(one?.from?.name, one?.name);
  });

  it('the order of a redacted list tells nothing of the order of the names', () => {
    const namespaces = Array.from({ length: 9 }, (_, at) => ({ name: `secret-${at}` }));
    const names = redacted(data([rule('secret-0', 'secret-0', [])], { namespaces })).namespaces?.map(
      ({ name }) => name,
    );
    assert.equal(new Set(names).size, 9);
    assert.deepEqual(names, names?.toSorted());
  });
});

/** The next line of the stream. */
async function nextOf(lines: AsyncGenerator<string>): Promise<PageMessage> {
  const { value } = (await lines.next()) as { value: string };
  return JSON.parse(value) as PageMessage;
}
