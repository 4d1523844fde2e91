/** From the least important to the most. Not in log.ts, so that reading flags does not load the logger. */
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;

export type LogLevel = (typeof LOG_LEVELS)[number];
