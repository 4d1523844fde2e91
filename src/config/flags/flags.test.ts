import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { flag } from './flags.ts';
import { parseFlags } from './parse-flags.ts';
import { quoted } from '../usage-error.ts';

const table = {
  leader: flag.bool('leader', 'x', true),
  file: flag.text('file', 'path', 'x'),
  every: flag.duration('every', '30m', 'x'),
  mode: flag.choice('mode', ['full', 'search'], 'full', 'x'),
  count: flag.count('count', 4, 1, 8, 'x'),
  at: flag.address('at', ':8080', 'x'),
};

function values(...argv: string[]) {
  const parsed = parseFlags({ table }, argv);
  assert.ok(parsed);
  return { ...parsed, values: parsed.values.table };
}

describe('Go flags', () => {
  it('a flag has one or two dashes, and its value after = or in the next argument', () => {
    for (const argv of [['-file', 'a'], ['--file', 'a'], ['-file=a'], ['--file=a'], ['--file=x', '-file', 'a']]) {
      assert.equal(values(...argv).values.file, 'a');
    }
    assert.equal(values('--file=a=b').values.file, 'a=b');
    assert.equal(values('--file', '-').values.file, '-');
    assert.equal(values('-file=-x').values.file, '-x', 'a value after = may look like a flag');
    assert.equal(values('--file=').values.file, undefined);
  });

  it('a boolean stands alone or has its value after =, never in the next argument', () => {
    assert.equal(values('-leader').values.leader, true);
    assert.equal(values('--leader=false').values.leader, false);
    assert.equal(values('-leader=F').values.leader, false);
    const { values: got, rest } = values('--leader', 'false', '--file', 'a');
    assert.deepEqual([got.leader, got.file, rest], [true, undefined, ['false', '--file', 'a']]);
  });

  it('a flag may have a letter; letters without a value may stand together, before one with a value', () => {
    const lettered = {
      all: { ...flag.bool('all', 'x'), short: 'A' },
      watch: { ...flag.bool('watch', 'x'), short: 'w' },
      output: { ...flag.text('output', 'x', 'x'), short: 'o' },
    };
    const parsed = (...argv: string[]) => parseFlags({ lettered }, argv, {}, 'anywhere');
    const plain = { all: false, watch: false, output: undefined };
    for (const [argv, expected] of [
      [['-A'], { all: true }],
      [['-A=false', '-w=1'], { watch: true }],
      [['-wA', '-ojson'], { all: true, watch: true, output: 'json' }],
      [['-wojson'], { watch: true, output: 'json' }],
      [['-o', 'json', '-output=yaml'], { output: 'yaml' }],
      [['-o=json'], { output: 'json' }],
      [['-o='], {}],
    ] as const) {
      assert.deepEqual(parsed(...argv).values.lettered, { ...plain, ...expected }, argv.join(' '));
    }
    assert.deepEqual(parsed('a', '-A', 'b', '--', '-w').rest, ['a', 'b', '-w'], 'arguments anywhere');
    assert.throws(() => parsed('-wx'), { message: 'unknown flag -wx' });
  });

  it('flags end at the first argument that is no flag, and at --', () => {
    assert.deepEqual(values('--file', 'a', 'b', '--mode', 'c').rest, ['b', '--mode', 'c']);
    assert.deepEqual(values('--leader', '--', '--file', 'a').rest, ['--file', 'a']);
    assert.deepEqual(values('-', '--file').rest, ['-', '--file']);
    assert.deepEqual(values('', '--file').rest, ['', '--file']);
  });

  it('-h and --help request help', () => {
    for (const argv of [['-h'], ['--help'], ['-help'], ['--file', 'a', '-h', '--nonsense']]) {
      assert.equal(
        parseFlags({ table }, argv, { KEYFERRY_NAMESPACE_SELECTOR: 'a=b' }).isHelp,
        true,
        'and reads nothing else',
      );
    }
  });

  it('parseFlags returns the values of given flags, and the defaults of the others', () => {
    const { values: got, given } = values('--count', '8');
    assert.deepEqual([...given], ['count']);
    assert.deepEqual(got, {
      leader: true,
      file: undefined,
      every: 1_800_000,
      mode: 'full',
      count: 8,
      at: { address: { host: '', port: 8080 }, flag: 'at' },
    });
  });

  it('every error about a command line names the flag and its value', () => {
    for (const [argv, message] of [
      [['--nope'], 'unknown flag --nope'],
      [['--constructor=1'], 'unknown flag --constructor'],
      [['-x=1'], 'unknown flag -x'],
      [['-hostname=x'], 'unknown flag -hostname'],
      [['-le'], 'unknown flag -le'],
      [['---file'], 'unknown flag ---file; did you mean --file?'],
      [['--no-file'], 'unknown flag --no-file'],
      [['--=a'], 'unknown flag --'],
      [['--file', '-x'], '--file needs a value; if "-x" is it, write ='],
      [['-file', '--leader'], '--file needs a value; if "--leader" is it, write ='],
      [['--file'], '--file needs a value'],
      [['--leader=maybe'], '--leader: bad value "maybe": must be true or false'],
      [['--every', '30'], '--every: bad value "30": must be a duration with unit, for example 30m, 1h2m3.5s or 500ms'],
      [['--every=-1s'], '--every: bad value "-1s": must be at least 0 ms'],
      [['--mode', 'x\n'], '--mode: bad value "x\\n": must be one of full, search'],
      [['--count', '9'], '--count: bad value "9": must be a whole number from 1 to 8'],
      [['--at', '8080'], '--at: bad value "8080": must be [host]:port, as :8080, 127.0.0.1:8080 or [::1]:8080'],
    ] as const) {
      assert.throws(() => parseFlags({ table }, argv), { name: 'UsageError', message });
    }
    assert.throws(() => parseFlags({}, ['--a']), { name: 'UsageError', message: 'unknown flag --a' });
  });

  it('the value 0 or the empty text disables a listen address', () => {
    assert.equal(values('--at=0').values.at, undefined);
    assert.equal(values('--at', '').values.at, undefined);
  });

  it('the error about a flag shortens a long value', () => {
    assert.equal(quoted('a'.repeat(500)).length, 123);
  });
});
