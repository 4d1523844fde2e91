import type { Log } from '../../src/observe/log.ts';

/** A log that writes nothing. */
export const nullLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
