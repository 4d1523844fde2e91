/** The signals that end a command. A terminal that is closed sends SIGHUP. */
export const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** Signals within this time of the first one are the same stop, ms: npm, a terminal and systemd signal the whole group, and npm forwards one more. */
const SAME_STOP_MS = 1000;

/**
 * Calls `stop` at the first of these signals. A signal that comes later than `SAME_STOP_MS` after it ends the process at once.
 * @returns removes the handlers, unless a signal came: a second one during the exit is still the same stop
 */
export function onStopSignal(stop: (signal: NodeJS.Signals) => void): () => void {
  let stoppedAt: number | undefined;
  const remove = (): void => {
    for (const name of STOP_SIGNALS) process.off(name, handle);
  };
  const handle = (signal: NodeJS.Signals): void => {
    if (stoppedAt === undefined) {
      stoppedAt = performance.now();
      stop(signal);
    } else if (performance.now() - stoppedAt > SAME_STOP_MS) {
      remove();
      process.kill(process.pid, signal);
    }
  };
  for (const name of STOP_SIGNALS) process.on(name, handle);
  return () => {
    if (stoppedAt === undefined) remove();
  };
}
