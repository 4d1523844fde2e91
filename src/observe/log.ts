/**
 * Structured logs: one JSON object a line, on standard error. Standard output belongs to the commands (`crds`, `status`
 * and `plan` are piped); a container's runtime collects both.
 *
 * Written synchronously, so that the last lines before a crash or an exit are there, and without worker threads, which
 * cost 10 MiB each.
 */
import { pino, type DestinationStream, type Logger } from 'pino';
import type { LogLevel } from './log-level.ts';
import { checkFields, type CheckedFields, type LogFields } from './log-fields.ts';

export interface Log {
  debug(msg: string, fields?: LogFields): void;
  info(msg: string, fields?: LogFields): void;
  warn(msg: string, fields?: LogFields): void;
  error(msg: string, fields?: LogFields): void;
  /** A log whose lines all carry `fields`; those of a line win over them. */
  child(fields: Omit<LogFields, 'error'>): Log;
  /** Whether `debug` writes anything: for lines whose making costs something. */
  readonly isDebug: boolean;
}

export interface LogOptions {
  readonly level: LogLevel;
  /** Where lines go. Default: standard error. */
  readonly destination?: DestinationStream;
}

const MAX_MESSAGE = 1024;

/** The log of a process. Its methods never throw for what they are given. */
export function createLog(options: LogOptions): Log {
  const logger = pino(
    {
      level: options.level,
      // No pid and host name: whoever collects the lines knows the container.
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      messageKey: 'msg',
    },
    options.destination ?? pino.destination({ dest: 2, sync: true }),
  );
  return new PinoLog(logger, {});
}

/** Writes nothing. For tests and for parts used without a process around them. */
export const nullLog: Log = Object.freeze({
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => nullLog,
  isDebug: false,
});

class PinoLog implements Log {
  readonly isDebug: boolean;
  readonly #logger: Logger;
  /** Kept here instead of in a pino child, which would write a field twice that a line gives again. */
  readonly #bound: CheckedFields;

  constructor(logger: Logger, bound: CheckedFields) {
    this.#logger = logger;
    this.#bound = bound;
    this.isDebug = logger.isLevelEnabled('debug');
  }

  debug(msg: string, fields?: LogFields): void {
    this.#write('debug', msg, fields);
  }

  info(msg: string, fields?: LogFields): void {
    this.#write('info', msg, fields);
  }

  warn(msg: string, fields?: LogFields): void {
    this.#write('warn', msg, fields);
  }

  error(msg: string, fields?: LogFields): void {
    this.#write('error', msg, fields);
  }

  child(fields: Omit<LogFields, 'error'>): Log {
    return new PinoLog(this.#logger, { ...this.#bound, ...checkFields(fields, false) });
  }

  #write(level: LogLevel, msg: string, fields: LogFields | undefined): void {
    if (!this.#logger.isLevelEnabled(level)) return;
    const checked = fields === undefined ? this.#bound : { ...this.#bound, ...checkFields(fields, this.isDebug) };
    this.#logger[level](checked, typeof msg === 'string' ? msg.slice(0, MAX_MESSAGE) : 'a message that is no text');
  }
}
