import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { describe, it } from 'node:test';

import { Screen } from './screen.ts';
import { fitting } from './server-table.ts';

/** What a screen prints. @param columns the width of the terminal; `undefined`: it is a log */
function printed(columns: number | undefined, print: (screen: Screen) => void): string {
  const out = Object.assign(new PassThrough(), columns === undefined ? {} : { isTTY: true, columns });
  print(new Screen({ out, env: { NO_COLOR: '1' } }));
  return String(out.read());
}

describe('the width of the demo', () => {
  const long = 'one two three four five six seven eight';

  it('on a terminal, no line is longer than its width, and notes keep their indent', () => {
    const text = printed(20, (screen) => {
      screen.title(long);
      screen.section(long);
      screen.note(long);
      screen.done('a thing', long);
      screen.command(`kubectl get ${long}`);
    });
    assert.deepEqual(
      text.split('\n').filter((line) => line.length > 20),
      [],
    );
    assert.match(text, /\n {2}one two three four\n {2}five six/);
  });

  it('a shell can read a command that the demo has broken', () => {
    const text = printed(30, (screen) => screen.command(`kubectl patch secret a --type merge -p '{"a": "b c"}'`));
    assert.equal(text, `  $ kubectl patch secret a \\\n      --type merge -p \\\n      '{"a": "b c"}'\n`);
  });

  it('in a log, no line is broken', () => {
    assert.equal(
      printed(undefined, (screen) => screen.note(long)),
      `  ${long}\n`,
    );
  });

  it('a table that is too wide loses columns after the name, and says so', () => {
    const cells = [
      ['NAME', 'SOURCE', 'POLL', 'READY'],
      ['a-mirror', 'a-secret', '180', 'True'],
    ];
    assert.deepEqual(fitting(cells, 1, 60), [
      'NAME       SOURCE     POLL   READY',
      'a-mirror   a-secret   180    True',
    ]);
    assert.deepEqual(fitting(cells, 1, 25), ['NAME       …     READY', 'a-mirror   …     True']);
  });
});
