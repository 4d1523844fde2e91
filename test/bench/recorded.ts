/**
 * Results of the original programs for the same work, and limits for Keyferry. The results were measured once, on a
 * real control plane with 2 cores, and with 20 sources × 50 namespaces.
 */
import type { BenchOptions } from './options.ts';
import type { Figure } from './rows.ts';

/** Values that depend on the number of unrelated Secrets. The key is the smallest number for which a value counts. */
type Steps<T> = Readonly<Record<number, T>>;

interface Recorded {
  /** Keyferry's figure must not be larger than this. */
  readonly must?: Steps<number>;
  /** Keyferry's figure must not be larger than this many times the bare client's figure. */
  readonly mustOfBare?: number;
  readonly mirrors?: string | Steps<string>;
  readonly replicator?: string | Steps<string>;
  readonly mittwald?: string | Steps<string>;
}

/** A result that grows with the number of unrelated Secrets. It was measured only with 10,000 of them. */
const among10k = (figure: string): Steps<string> => ({ 0: figure, 100_000: '' });

/** Results and limits, by the id of the figure. */
const RECORDED: Readonly<Record<string, Recorded>> = {
  'nothing.time': { must: { 0: 2 }, mirrors: '49 s', replicator: '199 s', mittwald: '199 s' },
  'nothing.cpu': { must: { 0: 1 }, mirrors: '1.3 s', replicator: '1.8 s', mittwald: '1.5 s' },
  'nothing.rss': {
    must: { 0: 80, 100_000: 90 },
    mirrors: { 0: '134 MiB', 100_000: '1,005 MiB' },
    replicator: among10k('129 MiB'),
    mittwald: among10k('128 MiB'),
  },
  'nothing.private': { must: { 0: 35 } },
  'nothing.read': {
    mirrors: { 0: '30 MB', 100_000: '232 MB' },
    replicator: among10k('33 MB'),
    mittwald: among10k('30 MB'),
  },
  'one-source.time': { must: { 0: 0.3 }, mirrors: '180 s', replicator: '10 s', mittwald: '10 s' },
  'all-sources.time': { must: { 0: 2 }, mirrors: '188 s', replicator: '204 s', mittwald: '204 s' },
  'namespace.time': { must: { 0: 0.2 }, mirrors: '0.46 s', replicator: '2.0 s', mittwald: '2.0 s' },
  'deleted.time': { must: { 0: 0.5 }, mirrors: '≤ 180 s', replicator: '0.4 s', mittwald: 'never' },
  'edited.time': { must: { 0: 0.5 }, mirrors: '≤ 180 s', replicator: 'never', mittwald: 'never' },
  'idle.requests': { must: { 0: 0 }, mirrors: '0', replicator: '0', mittwald: '0' },
  'restart.writes': { must: { 0: 0 } },
  'restart.read': { mirrors: among10k('25 MB'), replicator: among10k('26 MB'), mittwald: among10k('25 MB') },
  'restart.rss': {
    must: { 0: 80, 100_000: 90 },
    mirrors: among10k('145 MiB'),
    replicator: among10k('130 MiB'),
    mittwald: among10k('188 MiB'),
  },
  'restart.private': { must: { 0: 35 } },
  'wide.time': { mustOfBare: 1.4 },
  'wide.cpu': { must: { 0: 10 } },
  'wide.per-copy': { must: { 0: 0.6 } },
  'wide.restart.writes': { must: { 0: 0 } },
  'wide.restart.read': { must: { 0: 5 } },
  'bystander.time': { must: { 0: 1 } },
  'together.reflector': { must: { 0: 2 } },
  'together.seven': { must: { 0: 4 } },
  'labels.one': { must: { 0: 0.1 } },
  'labels.time': { mustOfBare: 1.5 },
  // The requests for one new mirror: finalizer, field ownership, source, copy, event, and one or two statuses.
  'labels-many.requests': { must: { 0: 7 } },
  'sync.time': { mustOfBare: 2.5 },
  'sync.phases': { must: { 0: 2 } },
  'sync.writes': { must: { 0: 6 } },
  'sync.ccm.rss': { must: { 0: 80 } },
  'sync.ccm.private': { must: { 0: 35 } },
  'sync.manager.rss': { must: { 0: 80 } },
  'sync.manager.private': { must: { 0: 35 } },
  'sync-change.time': { must: { 0: 0.3 } },
  'sync-change.phase': { must: { 0: 2 } },
  'sync-change.writes': { must: { 0: 4 } },
  'sync-repair.secret-edited': { must: { 0: 0.5 } },
  'sync-repair.secret-deleted': { must: { 0: 0.5 } },
  'sync-repair.copy-edited': { must: { 0: 0.5 } },
  'sync-repair.copy-deleted': { must: { 0: 0.5 } },
  'sync-idle.requests': { must: { 0: 0 } },
  'sync-idle.unrelated': { must: { 0: 0 } },
  'sync-restart.writes': { must: { 0: 0 } },
  'sync-restart.gets': { must: { 0: 0 } },
  'sync-restart.ccm.rss': { must: { 0: 80 } },
  'sync-restart.ccm.private': { must: { 0: 35 } },
  'sync-restart.manager.rss': { must: { 0: 80 } },
  'sync-restart.manager.private': { must: { 0: 35 } },
  'sync-removed.time': { mustOfBare: 2.5 },
  'sync-wide.ccm.each': { must: { 0: 4 } },
  'sync-wide.manager.each': { must: { 0: 4 } },
  'sync-wide.writes': { must: { 0: 6 } },
  'sync-wide.restart-writes': { must: { 0: 0 } },
  'removed.time': { must: { 0: 2 }, mirrors: '49 s', replicator: '202 s', mittwald: '206 s' },
};

/** The figures in `OF_REPLICATOR` must not be larger than this many times the replicator's of the same run. */
const MUST_OF_REPLICATOR: Readonly<Partial<Record<BenchOptions['system'], number>>> = {
  'config-syncer': 1.2,
  mittwald: 1.2,
  reflector: 1.1,
};
const OF_REPLICATOR: ReadonlySet<string> = new Set([
  'nothing.time',
  'nothing.cpu',
  'nothing.rss',
  'nothing.private',
  'nothing.read',
  'all-sources.time',
  'all-sources.cpu',
  'restart.private',
  'removed.time',
]);

/** Limits of all controllers of annotations. They read more, because the API server cannot select their sources. */
const ANNOTATED: Readonly<Record<string, Steps<number>>> = {
  'nothing.read': { 0: 8, 100_000: 60 },
  'restart.read': { 0: 6, 100_000: 60 },
};

/** Limits that depend on the system. */
const MUST_BY_SYSTEM: Readonly<Record<BenchOptions['system'], Readonly<Record<string, Steps<number>>>>> = {
  'config-syncer': ANNOTATED,
  generator: {
    'generate.values': { 0: 5 },
    'generate.touched': { 0: 2 },
    'generate.reads': { 0: 1 },
    'generate.vault-writes': { 0: 1 },
    'generate.writes': { 0: 2 },
    'generate.rss': { 0: 85 },
    'generate.private': { 0: 40 },
    'generate-ready.each': { 0: 2 },
    'generate-healed.writes': { 0: 0 },
    'generate-healed.vault': { 0: 0 },
    'generate-restart.writes': { 0: 0 },
    'generate-restart.vault': { 0: 0 },
    'generate-login.values': { 0: 5 },
    'generate-login.logins': { 0: 1 },
    'generate-v1beta1.writes': { 0: 3 },
  },
  mirrors: { 'nothing.read': { 0: 4 }, 'restart.read': { 0: 2, 100_000: 4 } },
  mittwald: ANNOTATED,
  reflector: ANNOTATED,
  replicator: ANNOTATED,
  page: {
    'page.first': { 0: 1000 },
    'page.filter': { 0: 50 },
    'page.hover': { 0: 50 },
    'page.change': { 0: 1 },
    'page.size': { 0: 40 },
    'page.report': { 0: 300 },
    'page.rss': { 0: 200 },
  },
  syncsecret: {},
  vault: {
    'kv.time': { 0: 8 },
    'kv.logins': { 0: 1 },
    'kv.reads': { 0: 1 },
    'kv.more-rss': { 0: 15 },
    'kv.more-private': { 0: 15 },
    'kv-change.reads': { 0: 1 },
    'kv-change.logins': { 0: 0 },
    'kv-quiet.vault-writes': { 0: 0 },
    'kv-quiet.reads': { 0: 0 },
    'kv-quiet.metadata': { 0: 1 },
    'kv-quiet.writes': { 0: 0 },
    'to-vault.time': { 0: 3 },
    'to-vault.logins': { 0: 1 },
    'to-vault.versions': { 0: 1 },
    'to-vault-change.time': { 0: 3 },
    'to-vault-change.versions': { 0: 1 },
  },
};

/** The limit for a figure of this run; `undefined`: it has no limit. */
export function mustOf(
  { id, bare, replicator }: Pick<Figure, 'id' | 'bare' | 'replicator'>,
  { system, unrelated }: Pick<BenchOptions, 'system' | 'unrelated'>,
): number | undefined {
  const ofBare = RECORDED[id]?.mustOfBare;
  if (ofBare !== undefined && bare !== undefined) return ofBare * bare;
  const ofReplicator = OF_REPLICATOR.has(id) ? MUST_OF_REPLICATOR[system] : undefined;
  if (ofReplicator !== undefined && replicator !== undefined) return ofReplicator * replicator;
  return stepAt(MUST_BY_SYSTEM[system][id] ?? RECORDED[id]?.must ?? {}, unrelated);
}

/** The result of an original program, as text; '' if it was not measured. */
export function recordedOf(
  id: string,
  original: 'mirrors' | 'replicator' | 'mittwald',
  { unrelated }: Pick<BenchOptions, 'unrelated'>,
): string {
  const figure = RECORDED[id]?.[original] ?? '';
  return typeof figure === 'string' ? figure : (stepAt(figure, unrelated) ?? '');
}

function stepAt<T>(steps: Steps<T>, unrelated: number): T | undefined {
  return Object.entries(steps)
    .filter(([from]) => Number(from) <= unrelated)
    .toSorted(([a], [b]) => Number(b) - Number(a))[0]?.[1];
}
