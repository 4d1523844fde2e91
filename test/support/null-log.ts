import type { Log } from '../../src/observe/log.ts';

/** Drops every line. */
export const nullLog: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};
