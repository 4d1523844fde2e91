/**
 * Writes the log on standard error: one JSON object a line, or text for people. Standard output belongs to the commands, because users
 * pipe `crds`, `status` and `plan`; a container's runtime collects both.
 *
 * Only fields with the names and types listed here are written; all others are dropped, even if TypeScript allowed them
 * at the call. So no object, and with it no Secret, can be logged.
 *
 * Lines are written synchronously, so that the last lines before a crash or an exit are not lost. Keyferry uses no log
 * library: pino would take 50 KiB of the bundle, 0.6 MiB of memory, and 4 % more CPU time for each copy.
 */
import { writeSync } from 'node:fs';
import { clipped } from '../runtime/text/texts.ts';
import { errorFields, type ErrorFields } from './error-fields.ts';

/** The least important level first. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];

export const LOG_FORMATS = ['text', 'json'] as const;

export type LogFormat = (typeof LOG_FORMATS)[number];

const TEXT_FIELDS = [
  'controller',
  'cluster',
  'kind',
  'namespace',
  'name',
  'mirror',
  'target',
  'source',
  'rule',
  'reason',
  'watch',
  'queue',
  'vault',
  'lease',
  'identity',
  'leader',
  'address',
  'path',
  'file',
  'flag',
  'signal',
  'version',
  'node',
  'limits',
  'advice',
] as const;

const NUMBER_FIELDS = ['retryInMs', 'pid'] as const;

type Of<Names extends readonly string[], Value> = { readonly [Name in Names[number]]?: Value | undefined };

/** Fields of one log line. Durations are in ms. A text field must not contain a value of a Secret. */
export type LogFields = Of<typeof TEXT_FIELDS, string> &
  Of<typeof NUMBER_FIELDS, number> & {
    /** Any thrown value; only its printable fields are written. */
    readonly error?: unknown;
  };

export interface Log {
  debug(msg: string, fields?: LogFields): void;
  info(msg: string, fields?: LogFields): void;
  warn(msg: string, fields?: LogFields): void;
  error(msg: string, fields?: LogFields): void;
}

interface LogOptions {
  readonly level: LogLevel;
  /** Default: `json`. */
  readonly format?: LogFormat;
  /** Writes a line. Default: to standard error. */
  readonly write?: (line: string) => void;
}

const MAX_MESSAGE = 1024;
const MAX_TEXT = 512;
/** Pause between attempts to write to a full pipe, ms. */
const FULL_PIPE_MS = 10;

const TYPE_OF: ReadonlyMap<string, string> = new Map([
  ...TEXT_FIELDS.map((name) => [name, 'string'] as const),
  ...NUMBER_FIELDS.map((name) => [name, 'number'] as const),
]);

/** Makes the log of a process. Its methods never throw, whatever their arguments are. */
export function createLog({ level, format = 'json', write = writeToStandardError }: LogOptions): Log {
  const writer =
    (of: LogLevel) =>
    (msg: string, fields?: LogFields): void => {
      if (LOG_LEVELS.indexOf(of) < LOG_LEVELS.indexOf(level)) return;
      const text = typeof msg === 'string' ? msg.slice(0, MAX_MESSAGE) : '(message is not text)';
      const time = new Date().toISOString();
      const checked = checkFields(fields, level === 'debug');
      const json = (): string => JSON.stringify({ level: of, time, ...checked, msg: text });
      write(`${format === 'json' ? json() : textLine(time, of, text, checked)}\n`);
    };
  return { debug: writer('debug'), info: writer('info'), warn: writer('warn'), error: writer('error') };
}

/** `2026-01-01T00:00:00.000Z INFO  copied target=team-a/db`. No text can end the line or control the terminal. */
function textLine(time: string, level: LogLevel, message: string, fields: Readonly<Record<string, unknown>>): string {
  const pairs = Object.entries(fields).flatMap(([name, value]) =>
    typeof value === 'object' && value !== null
      ? Object.entries(value).map(([part, of]) => [`${name}.${part}`, of] as const)
      : [[name, value] as const],
  );
  const texts = pairs.map(([name, value]) => {
    const text = String(value);
    return ` ${name}=${/^[^\s"=]+$/.test(text) ? text : JSON.stringify(text)}`;
  });
  const line = `${time} ${level.toUpperCase().padEnd(5)} ${message}${texts.join('')}`;
  return line.replaceAll(
    /[\p{Cc}\p{Cf}\u2028\u2029]/gu,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

/** Returns only the fields that may be logged. @param withStack as in `errorFields`. Never throws. */
function checkFields(fields: LogFields | undefined, withStack: boolean): Record<string, unknown> {
  const checked: Record<string, string | number | ErrorFields> = {};
  if (typeof fields !== 'object' || fields === null) return checked;
  for (const [name, value] of Object.entries<unknown>(fields)) {
    if (name === 'error' && value !== undefined) checked['error'] = errorFields(value, withStack);
    if (typeof value !== TYPE_OF.get(name)) continue;
    if (typeof value === 'string') checked[name] = clipped(value, MAX_TEXT);
    else if (typeof value === 'number') checked[name] = Math.round(value);
  }
  return checked;
}

function writeToStandardError(line: string): void {
  let rest = Buffer.from(line);
  while (rest.length > 0) {
    try {
      rest = rest.subarray(writeSync(2, rest));
    } catch (error) {
      // EAGAIN: the pipe is full. Any other error means that standard error is closed.
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_PIPE_MS);
    }
  }
}
