import assert from 'node:assert/strict';
import { test } from 'node:test';
import { asKey } from '../../../test/support/keys.ts';
import { observedObject } from '../../../test/support/observed-object.ts';
import type { SourceView } from '../model/claim.ts';
import type { RuleKey } from '../model/keys.ts';
import type { Observed } from '../model/observed.ts';
import type { Facts } from './facts.ts';
import {
  attemptOf,
  recordOverwritten,
  countRepair,
  recordWrite,
  pauseAfterOverwritten,
  pauseBeforeWrite,
  pauseBeforeRepair,
  type RepairMemory,
  type Repairs,
} from './repairs.ts';

test('the first ten repairs of a target wait for nothing, the next ones for growing pauses; after a minute without a repair the count restarts', () => {
  let repairs: Repairs | undefined;
  let now = 1000;
  const pauses: number[] = [];
  for (let n = 0; n < 17; n += 1) {
    const pause = pauseBeforeRepair(repairs, now);
    pauses.push(pause);
    now += pause;
    assert.equal(pauseBeforeRepair(repairs, now), 0, 'when the pause is over');
    repairs = countRepair(repairs, now);
  }
  assert.deepEqual(pauses, [...Array<number>(10).fill(0), 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
  assert.equal(pauseBeforeRepair(repairs, now - 3_600_000), 30_000, 'a clock that was set back');
  assert.equal(pauseBeforeRepair(repairs, now + 60_000), 0);
  assert.equal(countRepair(repairs, now + 60_000).count, 1);
});

test('writes of new versions of the source never count as repairs, however many there are', () => {
  const memory: RepairMemory = {};
  for (let n = 0; n < 100; n += 1) {
    const attempt = { mode: 'own', version: String(n), as: 's', isRepair: false, isNew: false } as const;
    assert.equal(pauseBeforeWrite(attempt, memory, n), 0);
    recordWrite(attempt, memory, n);
  }
  assert.deepEqual(memory, { wrote: '99', wroteAs: 's' });
});

test("if the server keeps changing Keyferry's writes, the first two follow at once, the next ones after growing pauses", () => {
  const memory: RepairMemory = {};
  const repair = { mode: 'own', version: '1', as: 's', isRepair: true, isNew: false } as const;
  let now = 1000;
  const pauses: number[] = [];
  for (let n = 0; n < 10; n += 1) {
    const pause = pauseBeforeWrite(repair, memory, now);
    assert.equal(pause, pauseAfterOverwritten(memory.overwritten, now));
    pauses.push(pause / 1000);
    now += pause;
    recordOverwritten(memory, now);
  }
  assert.deepEqual(pauses, [0, 0, 5, 10, 20, 40, 80, 160, 300, 300]);
  assert.equal(pauseBeforeWrite(repair, memory, now - 3_600_000), 300_000, 'a clock that was set back');
  // The pause holds neither for a new version of the source nor for a copy that is missing.
  assert.equal(pauseBeforeWrite({ ...repair, version: '2', isRepair: false }, memory, now), 0);
  assert.equal(pauseBeforeWrite({ ...repair, isNew: true }, memory, now), 0);
});

test('edits of a rule never count as repairs; writes of the same wish do, also if the target or its annotations are gone', () => {
  const memory: RepairMemory = {};
  const held = observedObject({ annotations: { version: '7' } });
  const write = (mode: 'own' | 'fill', id: string, observed: Observed | undefined): boolean => {
    const claim = {
      owner: { key: asKey<RuleKey>('rules:a/b'), title: '', rank: '' },
      mode,
      source: undefined,
      shape: {
        id,
        desiredState: (): never => assert.fail('not used'),
        heldVersion: ({ annotations }: Observed) => annotations['version'],
      },
    };
    const viewOf = (): SourceView => ({ state: 'present', version: '7', labels: {}, annotations: {} });
    const attempt = attemptOf({ observed, viewOf } as unknown as Facts, claim, memory);
    recordWrite(attempt, memory, 0);
    return attempt.isRepair;
  };
  assert.equal(write('own', 'first', undefined), false);
  for (let n = 0; n < 20; n += 1) assert.equal(write('own', `edit ${n}`, held), false, `edit ${n}`);
  assert.equal(memory.repairs, undefined);
  assert.equal(write('own', 'edit 19', held), true);
  assert.equal(write('own', 'edit 19', observedObject({})), true, 'without annotations');
  assert.equal(write('own', 'edit 19', undefined), true, 'without the target');
  assert.equal(write('fill', 'filler', observedObject({})), false, 'the writes of the filling rule count apart');
  assert.equal(write('fill', 'filler', held), true);
  assert.equal(write('own', 'edit 19', held), true);
  memory.wrote = undefined;
  assert.equal(write('own', 'another', held), true, 'after a restart only the annotations show the last write');
});
