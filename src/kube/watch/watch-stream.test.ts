import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { LineSplitter } from './watch-stream.ts';

test('property: a text gives the same lines, wherever it is cut into chunks', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: 'grapheme' }).map((s) => s.replaceAll('\n', ''))),
      fc.infiniteStream(fc.integer({ min: 1, max: 9 })),
      (lines, cuts) => {
        const text = Buffer.from(lines.map((line) => `${line}\n`).join(''));
        const splitter = new LineSplitter();
        const seen: string[] = [];
        for (let at = 0; at < text.length;) {
          const size = cuts.next().value as number;
          splitter.push(text.subarray(at, at + size), (line) => seen.push(line.toString()));
          at += size;
        }
        assert.deepEqual(
          seen,
          lines.filter((line) => line !== ''),
        );
        assert.equal(splitter.pendingBytes, 0);
      },
    ),
  );
});

test('an unfinished line of a stream is kept for the next chunk, and a line above 16 MiB is an error', () => {
  const splitter = new LineSplitter();
  const seen: string[] = [];
  splitter.push(Buffer.from('{}\n{"a'), (line) => seen.push(line.toString()));
  assert.deepEqual(seen, ['{}']);
  assert.equal(splitter.pendingBytes, 3);
  const more = Buffer.alloc(16 * 1024 * 1024 - 2, 'b');
  assert.throws(() => splitter.push(more, () => assert.fail('no line is complete')), RangeError);
});
