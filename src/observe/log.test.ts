import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { inspect } from 'node:util';
import * as fc from 'fast-check';
import { errorText } from './error-fields.ts';
import type { LogLevel } from './log.ts';
import { createLog, type Log } from './log.ts';

const CANARY = 'c4n4ry-s3cr3t-v4lu3';

function capture(level: LogLevel): { log: Log; lines: () => Record<string, unknown>[]; raw: () => string } {
  const written: string[] = [];
  const log = createLog({ level, write: (line: string) => void written.push(line) });
  return {
    log,
    raw: () => written.join(''),
    lines: () => written.map((line) => JSON.parse(line) as Record<string, unknown>),
  };
}

/** Fails if `text` has the canary, a made-up secret value, in an encoding that a log could use. */
function assertNoCanary(text: string): void {
  const bytes = Buffer.from(CANARY);
  for (const form of [CANARY, bytes.toString('base64').slice(0, 20), bytes.toString('hex'), [...bytes].join(',')]) {
    assert.ok(!text.includes(form), `found ${form} in ${text}`);
  }
}

describe('log', () => {
  it('a log line is one JSON object: level name, ISO time, msg, fields', () => {
    const { log, lines } = capture('info');
    log.info('copied', { controller: 'mirrors', mirror: 'a/b', retryInMs: 12, pid: 7 });
    const [line] = lines();
    assert.ok(line);
    assert.match(String(line['time']), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    assert.deepEqual(
      { ...line, time: '' },
      { level: 'info', time: '', controller: 'mirrors', mirror: 'a/b', retryInMs: 12, pid: 7, msg: 'copied' },
    );
  });

  it('a text line has time, level, message and fields, each readable by a person', () => {
    const written: string[] = [];
    const log = createLog({ level: 'info', format: 'text', write: (line) => void written.push(line) });
    log.warn('cannot copy', { target: 'a/b', reason: 'two words', retryInMs: 12, error: new TypeError('gone') });
    assert.match(
      written.join(''),
      /^20\S+Z WARN {2}cannot copy target=a\/b reason="two words" retryInMs=12 error\.type=TypeError error\.message=gone\n$/,
    );
  });

  it('no text of a text line can end the line, forge a field or control the terminal', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const written: string[] = [];
        const log = createLog({ level: 'info', format: 'text', write: (line) => void written.push(line) });
        log.info('seen', { name: `x${text}`, kind: '\u001B[2J\u009B\n level=error' });
        const [line = ''] = written;
        assert.match(
          line,
          /^20\S+Z INFO {2}seen name=[^\n]* kind="[^"]*"\n$|^20\S+Z INFO {2}seen kind="[^"]*" name=[^\n]*\n$/,
        );
        assert.doesNotMatch(line.trimEnd(), /[\p{Cc}\p{Cf}]/u);
      }),
    );
  });

  it('the log writes only lines of its level and of more important levels', () => {
    for (const [level, expected] of [
      ['debug', ['debug', 'info', 'warn', 'error']],
      ['info', ['info', 'warn', 'error']],
      ['warn', ['warn', 'error']],
      ['error', ['error']],
    ] as const) {
      const { log, lines } = capture(level);
      for (const method of ['debug', 'info', 'warn', 'error'] as const) log[method]('x');
      assert.deepEqual(
        lines().map((line) => line['level']),
        expected,
      );
    }
  });

  it('the log drops objects, buffers and unknown fields, even if a cast hides them from the type checker', () => {
    class SecretBytes {
      readonly bytes = Buffer.from(CANARY);
      toString(): string {
        return CANARY;
      }
      toJSON(): string {
        return CANARY;
      }
      [inspect.custom](): string {
        return CANARY;
      }
    }
    const secret = { metadata: { name: 'x' }, data: { password: Buffer.from(CANARY).toString('base64') } };
    for (const value of [new SecretBytes(), Buffer.from(CANARY), secret, [CANARY], () => CANARY, Symbol(CANARY)]) {
      const { log, lines, raw } = capture('debug');
      log.info('x', value as never);
      log.info('x', { name: value, retryInMs: value, error: value, pid: value, data: value } as never);
      log.warn('x', { source: value, extra: value, target: value } as never);
      log.error(value as never, { err: value, msg: value, req: value } as never);
      assert.equal(lines().length, 4);
      assertNoCanary(raw());
    }
    const { log, raw } = capture('debug');
    log.info('x', { password: CANARY, value: CANARY } as never);
    log.info('x', CANARY as never);
    log.info('x', { pid: CANARY } as never);
    assertNoCanary(raw());
  });

  it('a logged error has type, message, code, status, reason and causes, and a stack only at the level debug', () => {
    const cause = Object.assign(new TypeError('inner'), { code: 'ECONNRESET' });
    const error = Object.assign(new Error('outer', { cause }), {
      code: 'E1',
      status: 409,
      reason: 'Conflict',
      body: CANARY,
    });
    const info = capture('info');
    info.log.error('x', { error });
    assert.deepEqual(info.lines()[0]?.['error'], {
      type: 'Error',
      message: 'outer',
      code: 'E1',
      status: 409,
      reason: 'Conflict',
      cause: 'TypeError: inner',
    });
    const debug = capture('debug');
    debug.log.error('x', { error });
    const logged = debug.lines()[0]?.['error'] as Record<string, string>;
    assert.match(logged['stack'] ?? '', /^ {4}at .*log\.test\.ts/);
    assert.ok(!logged['stack']?.includes('outer'));
    assertNoCanary(debug.raw());
  });

  it('a logged error omits a cause that its message quotes, and a reason of several words', () => {
    const cause = new TypeError('connect ECONNREFUSED 127.0.0.1:1');
    const message = 'vault https://v: GET auth/token/lookup-self: connect ECONNREFUSED 127.0.0.1:1';
    const { log, lines } = capture('info');
    log.warn('x', {
      error: Object.assign(new Error(message, { cause }), { reason: 'connect ECONNREFUSED 127.0.0.1:1' }),
    });
    assert.deepEqual(lines()[0]?.['error'], { type: 'Error', message });
  });

  it('errorText omits causes that the message quotes, and the log rounds numbers', () => {
    const told = new RangeError('must be a number');
    assert.equal(errorText(new Error('--n: must be a number', { cause: told })), '--n: must be a number');
    assert.equal(errorText(new Error('--n: bad', { cause: told })), '--n: bad (must be a number)');
    const refused = new Error('GET /x: refused', { cause: new Error('refused') });
    assert.equal(
      errorText(new Error('no cluster: GET /x: refused', { cause: refused })),
      'no cluster: GET /x: refused',
    );
    assert.equal(errorText(new Error('GET /x: 1', { cause: refused })), 'GET /x: 1 (GET /x: refused ← refused)');
    const { log, lines } = capture('info');
    log.info('x', { retryInMs: 668.0162 });
    assert.equal(lines()[0]?.['retryInMs'], 668);
  });

  it('if an error of JavaScript or Node quotes its input, the log and errorText remove the quotation', () => {
    const attempts: (() => unknown)[] = [
      () => JSON.parse(CANARY),
      () => JSON.parse(`{"a":"${CANARY}`),
      () => JSON.parse(`{"a": ${CANARY}}`),
      () => Buffer.concat(CANARY as never),
      () => Buffer.alloc(CANARY as never),
      () => new URL(CANARY),
      () => {
        throw CANARY;
      },
    ];
    for (const attempt of attempts) {
      const { log, raw } = capture('debug');
      try {
        attempt();
        assert.fail('should have thrown');
      } catch (error) {
        log.error('x', { error });
        log.error('x', { error: new Error('reading the value', { cause: error }) });
        assertNoCanary(errorText(error));
      }
      assertNoCanary(raw());
    }
  });

  it('property: for any input the log does not throw, and writes less than 64 kB', () => {
    fc.assert(
      fc.property(fc.anything(), fc.string({ maxLength: 20_000 }), (value, text) => {
        const { log, raw } = capture('debug');
        log.warn(text, { error: value, name: text, attempt: value } as never);
        log.info(value as never, value as never);
        assert.ok(raw().length < 64_000);
      }),
      { numRuns: 200 },
    );
    const looped = new Error('loop');
    looped.cause = looped;
    const { log, lines } = capture('info');
    log.error('x'.repeat(5000), { error: looped, name: 'n'.repeat(5000) });
    assert.equal(String(lines()[0]?.['msg']).length, 1024);
    assert.equal(String(lines()[0]?.['name']).length, 512);
  });

  it('if process.exit follows the last log call, all log lines still reach standard error', () => {
    const script = `const { createLog } = await import(${JSON.stringify(new URL('log.ts', import.meta.url).href)});
      const log = createLog({ level: 'info' }); for (let i = 0; i < 2000; i++) log.info('line', { pid: i }); process.exit(3);`;
    const child = spawnSync(process.execPath, ['--input-type=module', '-e', script], {
      encoding: 'utf8',
      timeout: 60_000,
    });
    assert.equal(child.status, 3);
    assert.equal(child.stdout, '');
    assert.equal(child.stderr.trim().split('\n').length, 2000);
  });
});
