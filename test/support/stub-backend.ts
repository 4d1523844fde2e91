import type { Backend } from '../../src/copy/backend.ts';

/** A backend without sources, whose targets are always synced. */
export function stubBackend(
  name: string,
  synced = Promise.resolve(),
  options: Pick<Backend, 'sharesByRule'> = {},
): Backend & {
  /** The reconciled targets. */
  readonly reconciled: string[];
} {
  const reconciled: string[] = [];
  return {
    ...options,
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
      flowOf: () => 'inactive',
    }),
    concurrency: 1,
    synced: async () => await synced,
    watches: [],
    cachedBytes: 0,
    stop: async () => await Promise.resolve(),
  };
}
