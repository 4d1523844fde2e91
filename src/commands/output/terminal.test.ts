import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { Progress, type ProgressStream, withProgress } from './terminal.ts';

const ERASE = '\r\u001B[K';

function scene(stream: Omit<ProgressStream, 'write'> = { isTTY: true }, term = 'xterm') {
  const written: string[] = [];
  const clock = new ManualClock();
  const progress = new Progress({ ...stream, write: (text) => written.push(text) }, term, clock);
  return { written, clock, progress };
}

describe('progress', () => {
  it('the progress line appears after 1 s, changes at most ten times a second, and is erased at the end', async () => {
    const { written, clock, progress } = scene();
    progress.show(() => 'early');
    await clock.advance(1000);
    for (const text of ['one', 'too soon']) progress.show(() => text);
    await clock.advance(100);
    progress.show(() => 'two');
    progress.end();
    await clock.advance(1000);
    progress.show(() => 'late');
    progress.end();
    assert.deepEqual(written, [`${ERASE}one`, `${ERASE}two`, ERASE]);
  });

  it('the progress line does not appear for work of less than 1 s, or on a terminal that cannot erase a line', async () => {
    const short = scene();
    short.progress.show(() => 'x');
    short.progress.end();
    const others = [scene({}), scene({ isTTY: true }, 'dumb')];
    for (const { clock, progress } of others) {
      await clock.advance(5000);
      progress.show(() => 'x');
      progress.end();
    }
    assert.deepEqual(
      [short, ...others].flatMap(({ written }) => written),
      [],
    );
  });

  it('the progress line is cut to the width of the terminal', async () => {
    const { written, clock, progress } = scene({ isTTY: true, columns: 5 });
    await clock.advance(1000);
    progress.show(() => 'abcdefgh');
    assert.deepEqual(written, [`${ERASE}abcd`]);
  });

  it('the progress line counts the objects of all lists, and each object is passed on', async () => {
    const { written, clock, progress } = scene();
    const metadata = { name: 'x', uid: '', resourceVersion: '', creationTimestamp: '' };
    const lister = withProgress(async (_collection, _namespace, take) => {
      await clock.advance(1000);
      take({ metadata });
      return await Promise.resolve(true);
    }, progress);
    const taken: unknown[] = [];
    for (const kind of ['A', 'B']) {
      const collection = { kind, groupPath: '', plural: '' };
      assert.equal(await lister(collection, undefined, (item) => taken.push(item)), true);
    }
    assert.equal(taken.length, 2);
    assert.deepEqual(written, [`${ERASE}reading the cluster: 1 objects`, `${ERASE}reading the cluster: 2 objects`]);
  });
});
