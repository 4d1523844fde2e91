/** The signals that end a command. A closed terminal sends SIGHUP. */
const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const;

/** Signals within this time count as one, ms: npm, terminals and systemd signal all processes of a group, npm twice. */
const SAME_STOP_MS = 1000;

/**
 * Calls `stop` at the first of these signals. A signal more than `SAME_STOP_MS` later ends the process at once.
 * @returns a function that removes the handlers. After a signal it keeps them: the same stop may send a second signal
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
