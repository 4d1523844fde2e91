import type { Backend, TargetQueueing } from '../../src/copy/engine/backend.ts';

/** A backend for unit tests. It has no sources, and all of its targets are up to date at once. */
export function stubBackend(
  name: string,
  synced = Promise.resolve(),
  shareBy: TargetQueueing['shareBy'] = 'target',
): Backend & {
  /** The targets that the engine gave it to reconcile, in order. */
  readonly reconciled: string[];
} {
  const reconciled: string[] = [];
  return {
    name,
    reconciled,
    sourcesOf: () => ({
      view: () => ({ state: 'unknown' }),
      fingerprint: () => undefined,
      load: async () => await Promise.resolve(undefined),
      follow: () => undefined,
      unfollow: () => undefined,
    }),
    targetsOf: () => ({
      reconcile: async (target) => {
        reconciled.push(target);
        return await Promise.resolve(undefined);
      },
      failed: () => undefined,
      contestOf: () => ({
        entries: [],
        markedBy: undefined,
        leftBy: [],
        observed: undefined,
        viewOf: () => ({ state: 'unknown' }),
        now: 0,
      }),
    }),
    queueing: {
      name: 'targets',
      concurrency: 1,
      laneOf: undefined,
      shareBy,
      longestWaitMs: () => undefined,
    },
    ready: async () => await synced,
    synced: async () => await synced,
    watches: [],
    queues: [],
    cachedBytes: 0,
    drain: async () => await Promise.resolve(),
    stop: async () => await Promise.resolve(),
  };
}
