/** The flags of controller-runtime's logger, which several originals have, mapped to --log-level where possible. */
import type { LogLevel } from '../../observe/log-level.ts';
import { boolFlag, choiceFlag, parsedFlag, textFlag, type FlagTable, type FlagValues } from './flags.ts';

export const zapFlags = {
  zapDevel: boolFlag('zap-devel', false, 'same as --log-level debug'),
  zapEncoder: choiceFlag('zap-encoder', ['json', 'console'], 'json', 'accepted; logs are always JSON'),
  zapLogLevel: parsedFlag('zap-log-level', 'level', 'info', 'debug, info, error or a number', parseZapLevel),
  zapStacktraceLevel: textFlag('zap-stacktrace-level', 'level', 'accepted; stacks are logged at level debug'),
  zapTimeEncoding: textFlag('zap-time-encoding', 'format', 'accepted; times are always RFC 3339'),
} satisfies FlagTable;

type Values = FlagValues<typeof zapFlags>;

/** A level in the syntax of zap's flag: a name, or a number above 0 for debug levels. */
export function parseZapLevel(text: string): LogLevel {
  const name = text.toLowerCase();
  if (name === 'debug' || name === 'info' || name === 'warn' || name === 'error') return name;
  if (name === 'panic' || name === 'dpanic' || name === 'fatal') return 'error';
  if (/^[1-9]\d{0,8}$/.test(name)) return 'debug';
  throw new RangeError('must be debug, info, error or a number above 0');
}

/** The level that the zap flags set; `undefined` if they set none. */
export function zapLevel(values: Values, given: ReadonlySet<string>): LogLevel | undefined {
  if (given.has('zapLogLevel')) return values.zapLogLevel;
  return values.zapDevel ? 'debug' : undefined;
}

/** Zap flags that have no effect, as sentences for the log. */
export function zapNotes(values: Values): string[] {
  const notes: string[] = [];
  if (values.zapEncoder === 'console') notes.push('--zap-encoder=console has no effect: logs are JSON');
  if (values.zapStacktraceLevel !== undefined) {
    notes.push('--zap-stacktrace-level has no effect: stacks are logged at --log-level debug');
  }
  if (values.zapTimeEncoding !== undefined) notes.push('--zap-time-encoding has no effect: times are RFC 3339');
  return notes;
}
