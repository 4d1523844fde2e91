import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { textTable } from './text.ts';

describe('textTable', () => {
  it('a table pads each column but the last by three blanks, to a width of at least six', () => {
    assert.deepEqual(textTable(['NAME', 'N', 'AGE'], [['mysecret-mirror', '1', '5m2s']]), [
      'NAME              N     AGE',
      'mysecret-mirror   1     5m2s',
    ]);
  });

  it('a table cuts a cell at its first line break, as kubectl does', () => {
    assert.deepEqual(textTable(['MESSAGE'], [['first\nsecond']]), ['MESSAGE', 'first...']);
  });

  it('a table paints the header and cells with a style, without their padding', () => {
    const rows = [['a', { text: 'Error\n', style: 'bad' }, 'x']] as const;
    const paint = (text: string, style: string): string => `<${style} ${text}>`;
    assert.deepEqual(textTable(['NAME', 'STATE', 'WHY'], rows, paint), [
      '<title NAME>   <title STATE>      <title WHY>',
      'a      <bad Error...>   x',
    ]);
  });

  it('a table shows a missing cell as an empty one', () => {
    assert.deepEqual(textTable(['A', 'B', 'C'], [['1']]), ['A     B     C', '1           ']);
  });
});
