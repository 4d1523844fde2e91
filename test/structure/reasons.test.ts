/** Each reason has one entry with its words (`copy/model/reasons.ts`), and no other file says them again. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { it } from 'node:test';

import { FAULTS, REASONS } from '../../src/copy/model/reasons.ts';
import { readSources } from './imports.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');
const TABLE = 'src/copy/model/reasons.ts';
const CODE = readSources(ROOT).filter(({ file }) => !file.endsWith('.test.ts') && file !== TABLE);

it('each reason in the code has an entry', () => {
  // The reasons of the API server, and those of metrics, are not Keyferry's.
  const own = CODE.filter(({ file }) => !/^src\/(kube|observe)\//.test(file));
  const used = own.flatMap(({ text }) =>
    [/\breason: '(\w+)'/g, /\b(?:user|operator|nobody)Cause\(\s*'(\w+)'/g, /\bnotReady\(\s*'\w+',\s*'(\w+)'/g].flatMap(
      (pattern) => Array.from(text.matchAll(pattern), ([, reason]) => reason ?? ''),
    ),
  );
  assert.ok(used.length > 10, `only ${used.length} reasons were found`);
  assert.deepEqual(
    [...new Set(used)].filter((reason) => !(reason in REASONS)),
    [],
  );
});

it('no other file has the words of an entry', () => {
  const twice = Object.entries(REASONS).flatMap(([reason, { says }]) => {
    // A short text, for example `a permission is missing`, may be a part of another sentence.
    if (says.length < 30) return [];
    return CODE.filter(({ text }) => text.includes(`'${says}`) || text.includes(`\`${says}`)).map(
      ({ file }) => `${reason}: ${file}`,
    );
  });
  assert.deepEqual(twice, []);
});

it('an entry says how to end the reason if somebody must act', () => {
  for (const [reason, { who, how }] of Object.entries(REASONS)) {
    assert.equal(how === '', who === 'nobody', reason);
  }
});

for (const [fault, alert] of [
  ['user', 'KeyferryRuleNeedsAuthor'],
  ['operator', 'KeyferryRulesFailing'],
] as const) {
  it(`the runbook of ${alert} names each reason with the fault ${fault}`, () => {
    const page = readFileSync(path.join(ROOT, 'docs', 'runbook', `${alert}.md`), 'utf8');
    const reasons = Object.entries(REASONS).filter(([, { who }]) => FAULTS[who] === fault);
    assert.deepEqual(
      reasons.map(([reason]) => reason).filter((reason) => !page.includes(`\`${reason}\``)),
      [],
    );
  });
}
