/**
 * Makes a few short texts, for logs and terminals, from a thrown value.
 *
 * Errors of this program never hold secret values, but errors of JavaScript and Node can: `JSON.parse` quotes its
 * input, and Node's argument checks quote the argument. These quotations are removed here. Other fields of an error
 * (`input`, `body`, `response`, …) are never read.
 */
import { clipped } from '../runtime/text/texts.ts';

/** The printable fields of an error. Long texts are cut. */
export interface ErrorFields {
  readonly type: string;
  readonly message: string;
  /** The code that Node or Keyferry gives the error, for example `ECONNREFUSED`. */
  readonly code?: string | number;
  /** HTTP status of the answer that caused the error. */
  readonly status?: number;
  /** The API server's reason, one word: `Conflict`. */
  readonly reason?: string;
  /** `type: message` of each cause, outermost first, except causes that the message quotes. */
  readonly cause?: string;
  /** The frames of the stack, without its first lines, which repeat the message. */
  readonly stack?: string;
}

const MAX_MESSAGE = 1024;
const MAX_SHORT = 128;
const MAX_STACK = 4096;
const MAX_CAUSES = 4;

/** The printable fields of a thrown value. Never throws. @param withStack adds the frames of the stack */
export function errorFields(thrown: unknown, withStack = false): ErrorFields {
  // A thrown string may contain a secret, so only the type of the thrown value is used.
  if (!(thrown instanceof Error)) return { type: 'NotAnError', message: `a thrown ${typeof thrown}` };
  const code = field(thrown, 'code');
  const status = field(thrown, 'status');
  const reason = field(thrown, 'reason');
  const message = messageOf(thrown);
  const cause = newCauses(thrown, message, true);
  const stack = withStack ? framesOf(thrown) : '';
  return {
    type: typeOf(thrown),
    message,
    ...(typeof code === 'number' ? { code } : {}),
    ...(typeof code === 'string' ? { code: clipped(code, MAX_SHORT) } : {}),
    ...(typeof status === 'number' ? { status } : {}),
    ...(typeof reason === 'string' && /^\w+$/.test(reason) ? { reason: clipped(reason, MAX_SHORT) } : {}),
    ...(cause === '' ? {} : { cause }),
    ...(stack === '' ? {} : { stack }),
  };
}

/** One line for a terminal: the messages of the error and its causes, but no error types, which users do not know. */
export function errorText(thrown: unknown): string {
  const { message } = errorFields(thrown);
  const causes = thrown instanceof Error ? newCauses(thrown, message, false) : '';
  return causes === '' ? message : `${message} (${causes})`;
}

/** The causes, outermost first. Omits causes that the message quotes, as messages of wrapping errors often do. */
function newCauses(error: Error, message: string, withType: boolean): string {
  const texts: string[] = [];
  let { cause } = error;
  for (let depth = 0; cause instanceof Error && depth < MAX_CAUSES; depth++) {
    const text = messageOf(cause);
    if (!message.includes(text)) texts.push(withType ? `${typeOf(cause)}: ${text}` : text);
    cause = cause.cause;
  }
  return clipped(texts.join(' ← '), MAX_MESSAGE);
}

function typeOf(error: Error): string {
  return clipped(typeof error.name === 'string' && error.name !== '' ? error.name : 'Error', MAX_SHORT);
}

function messageOf(error: Error): string {
  const message = typeof error.message === 'string' ? error.message : '';
  if (error instanceof SyntaxError && message.includes('JSON')) {
    const position = /at position \d+/.exec(message)?.[0];
    return position === undefined ? 'not valid JSON' : `not valid JSON ${position}`;
  }
  const code = field(error, 'code');
  if (typeof code === 'string' && code.startsWith('ERR_INVALID_')) {
    return clipped(message.replace(/[.;,]? Received[\s\S]*$/, ''), MAX_MESSAGE);
  }
  // If a name has several addresses and all refuse the connection, Node throws an AggregateError without a message.
  if (message === '' && error instanceof AggregateError) {
    const inner: unknown = error.errors[0];
    if (inner instanceof Error && inner !== error) return messageOf(inner);
  }
  return clipped(message, MAX_MESSAGE);
}

function framesOf(error: Error): string {
  const lines = typeof error.stack === 'string' ? error.stack.split('\n') : [];
  return clipped(lines.filter((line) => /^ {4}at /.test(line)).join('\n'), MAX_STACK);
}

function field(error: Error, name: 'code' | 'status' | 'reason'): unknown {
  return (error as unknown as Record<string, unknown>)[name];
}
