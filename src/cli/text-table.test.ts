import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { textTable } from './text-table.ts';

describe('textTable', () => {
  it('pads by three blanks, at least to six columns, but not the last column', () => {
    assert.deepEqual(textTable(['NAME', 'N', 'AGE'], [['mysecret-mirror', '1', '5m2s']]), [
      'NAME              N     AGE',
      'mysecret-mirror   1     5m2s',
    ]);
  });

  it('cuts a cell at its first line break, as kubectl does', () => {
    assert.deepEqual(textTable(['MESSAGE'], [['first\nsecond']]), ['MESSAGE', 'first...']);
  });

  it('shows a missing cell as an empty one', () => {
    assert.deepEqual(textTable(['A', 'B', 'C'], [['1']]), ['A     B     C', '1           ']);
  });
});
