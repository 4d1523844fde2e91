/**
 * Structured logs: one JSON object a line, on standard error. Standard output belongs to the commands (`crds`, `status`
 * and `plan` are piped); a container's runtime collects both.
 *
 * Written synchronously, so that the last lines before a crash or an exit are there. No library does it: pino took 50 KiB of the
 * bundle, 0.6 MiB of memory, and 4 % of the CPU time of a copy more.
 */
import { writeSync } from 'node:fs';
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

export interface LogDestination {
  write(line: string): void;
}

export interface LogOptions {
  readonly level: LogLevel;
  /** Where lines go. Default: standard error. */
  readonly destination?: LogDestination;
}

const MAX_MESSAGE = 1024;

/** In the order of importance. */
const LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error'];
/** Pause between attempts to write to a full pipe, ms. */
const FULL_PIPE_MS = 10;

/** The log of a process. Its methods never throw for what they are given. */
export function createLog({ level, destination = STANDARD_ERROR }: LogOptions): Log {
  const isDebug = level === 'debug';
  const writer =
    (of: LogLevel) =>
    (msg: string, fields?: LogFields): void => {
      if (LEVELS.indexOf(of) < LEVELS.indexOf(level)) return;
      const checked = fields === undefined ? undefined : checkFields(fields, isDebug);
      const text = typeof msg === 'string' ? msg.slice(0, MAX_MESSAGE) : '(message is not text)';
      const line = { level: of, time: new Date().toISOString(), ...checked, msg: text };
      destination.write(`${JSON.stringify(line)}\n`);
    };
  return { isDebug, debug: writer('debug'), info: writer('info'), warn: writer('warn'), error: writer('error') };
}

const STANDARD_ERROR: LogDestination = {
  write: (line) => {
    let rest = Buffer.from(line);
    while (rest.length > 0) {
      try {
        rest = rest.subarray(writeSync(2, rest));
      } catch (error) {
        // Standard error is closed.
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return;
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FULL_PIPE_MS);
      }
    }
  },
};
