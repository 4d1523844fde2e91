import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { VaultError } from '../../../vault/errors.ts';
import { Refusals } from './queue.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';

const USUAL_MS = 12_000;
const DENIED = new VaultError('denied', { kind: 'permissionDenied', addr: 'x' });
const rule = (index: number, namespace = 'a'): RuleKey => asKey(`generator:${namespace}/${index}`);

describe('rules that Vault refuses', () => {
  const scene = (): { clock: ManualClock; refusals: Refusals } => {
    const clock = new ManualClock();
    return { clock, refusals: new Refusals(clock, USUAL_MS, () => 0.5) };
  };

  function refuse(refusals: Refusals, many: number, namespace = 'a'): number | undefined {
    let waitMs: number | undefined;
    for (let index = 0; index < many; index++) waitMs = refusals.failed(rule(index, namespace), DENIED);
    return waitMs;
  }

  for (const [namespaces, many, waitMs] of [
    [1, 1, undefined],
    [1, 120, undefined],
    [1, 121, 12_100],
    [1, 3000, 300_000],
    [100, 30, 300_000],
    [100, 1, undefined],
  ] as const) {
    it(`with ${many} refused rules in each of ${namespaces} namespaces, a refused rule waits ${waitMs === undefined ? 'as usual' : `${waitMs} ms`}, so that at most ten are tried per second`, () => {
      const { refusals } = scene();
      for (let index = 0; index < namespaces; index++) refuse(refusals, many, `n${index}`);
      // Refused a second time, because the first waits were computed before all rules were refused.
      assert.equal(refuse(refusals, many, 'n0'), waitMs);
      if (waitMs !== undefined) assert.ok((namespaces * many * 1000) / waitMs <= 10);
    });
  }

  it('even with 20,000 refused rules, each waits at most ten minutes', () => {
    const { refusals } = scene();
    for (let index = 0; index < 200; index++) refuse(refusals, 100, `n${index}`);
    assert.equal(refuse(refusals, 100, 'n0'), 600_000);
  });

  it('if a refused rule then fails for another reason, for example a timeout, it no longer counts as refused', () => {
    const { refusals } = scene();
    refuse(refusals, 3000);
    const down = new VaultError('down', { kind: 'timeout', addr: 'x' });
    for (let index = 0; index < 2900; index++) refusals.failed(rule(index), down);
    assert.equal(refusals.failed(rule(2999), DENIED), undefined);
  });

  it('thousands of refused rules in one namespace do not slow down a refused rule in another namespace', () => {
    const { refusals } = scene();
    refuse(refusals, 3000, 'many');
    assert.equal(refusals.failed(rule(0, 'few'), DENIED), undefined);
  });

  it('rules with timeouts, and rules that are no longer refused, do not slow down a refused rule', () => {
    const { refusals } = scene();
    const down = new VaultError('down', { kind: 'timeout', addr: 'x' });
    for (let index = 0; index < 3000; index++) assert.equal(refusals.failed(rule(index), down), undefined);
    refuse(refusals, 3000);
    for (let index = 0; index < 3000; index++) assert.deepEqual([...refusals.succeeded(rule(index), false)], []);
    assert.equal(refusals.failed(rule(0), DENIED), undefined);
  });

  it('when a refused rule succeeds, the other refused rules of its namespace are tried immediately, but at most once a minute', async () => {
    const { clock, refusals } = scene();
    refuse(refusals, 200);
    refuse(refusals, 2, 'b');
    assert.equal([...refusals.succeeded(rule(1), true)].length, 199);
    refusals.failed(rule(1), DENIED);
    await clock.advance(59_000);
    assert.deepEqual([...refusals.succeeded(rule(1), true)], []);
    await clock.advance(1000);
    assert.deepEqual([...refusals.succeeded(rule(1), true)], [], 'the rule was not refused');
    assert.equal([...refusals.succeeded(rule(2), true)].length, 198);
  });
});
