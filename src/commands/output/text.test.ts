import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { textTable } from './text.ts';

describe('textTable', () => {
  it('a text table pads each column except the last one with three blanks, to at least six characters', () => {
    assert.deepEqual(textTable(['NAME', 'N', 'AGE'], [['mysecret-mirror', '1', '5m2s']]), [
      'NAME              N     AGE',
      'mysecret-mirror   1     5m2s',
    ]);
  });

  it('a text table cuts a cell at its first line break, as kubectl does', () => {
    assert.deepEqual(textTable(['MESSAGE'], [['first\nsecond']]), ['MESSAGE', 'first...']);
  });

  it('a text table colors only the text of header and cells, not the blanks after it', () => {
    const rows = [['a', { text: 'Error\n', style: 'bad' }, 'x']] as const;
    const paint = (text: string, style: string): string => `<${style} ${text}>`;
    assert.deepEqual(textTable(['NAME', 'STATE', 'WHY'], rows, paint), [
      '<title NAME>   <title STATE>      <title WHY>',
      'a      <bad Error...>   x',
    ]);
  });

  it('if a row of a text table has too few cells, the others are empty', () => {
    assert.deepEqual(textTable(['A', 'B', 'C'], [['1']]), ['A     B     C', '1           ']);
  });
});
