/**
 * Structured logs: one JSON object a line, on standard error. Standard output belongs to the commands (`crds`, `status`
 * and `plan` are piped); a container's runtime collects both.
 *
 * Written synchronously, so that the last lines before a crash or an exit are there, and without worker threads, which
 * cost 10 MiB each.
 */
import { pino, type DestinationStream, type Logger } from 'pino';
import type { LogLevel } from './log-level.ts';
import { checkFields, type LogFields } from './log-fields.ts';

export interface Log {
  debug(msg: string, fields?: LogFields): void;
  info(msg: string, fields?: LogFields): void;
  warn(msg: string, fields?: LogFields): void;
  error(msg: string, fields?: LogFields): void;
  /** Whether `debug` writes lines; asked before making a line that costs something. */
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
      // No pid and host name: the log collector adds the container's name.
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      messageKey: 'msg',
    },
    options.destination ?? pino.destination({ dest: 2, sync: true }),
  );
  return new PinoLog(logger);
}

class PinoLog implements Log {
  readonly isDebug: boolean;
  readonly #logger: Logger;

  constructor(logger: Logger) {
    this.#logger = logger;
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

  #write(level: LogLevel, msg: string, fields: LogFields | undefined): void {
    if (!this.#logger.isLevelEnabled(level)) return;
    const checked = fields === undefined ? {} : checkFields(fields, this.isDebug);
    this.#logger[level](checked, typeof msg === 'string' ? msg.slice(0, MAX_MESSAGE) : '(message is not text)');
  }
}
