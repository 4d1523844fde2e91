/** What the figures of Keyferry must not exceed. */
import type { BenchOptions } from './options.ts';
import type { Figure } from './rows.ts';

/** The largest value. With steps: by the number of unrelated Secrets from which each counts. */
type Limit = number | Readonly<Record<number, number>>;

/** By the id of the figure. */
const LIMITS: Readonly<Record<string, Limit>> = {
  'nothing.time': 2,
  'nothing.cpu': 1,
  'nothing.rss': { 0: 80, 100_000: 90 },
  'nothing.private': 35,
  'one-source.time': 0.3,
  'all-sources.time': 2,
  'namespace.time': 0.2,
  'deleted.time': 0.5,
  'edited.time': 0.5,
  'idle.requests': 0,
  'restart.writes': 0,
  'restart.rss': { 0: 80, 100_000: 90 },
  'restart.private': 35,
  'removed.time': 2,
  'wide.cpu': 10,
  'wide.per-copy': 0.6,
  'wide.restart.writes': 0,
  'wide.restart.read': 5,
  'widest.restart.writes': 0,
  'widest.restart.ready': 20,
  'widest.restart.per-copy': 0.7,
  'bystander.time': 1,
  'together.reflector': 2,
  'together.seven': 4,
  'sync.phases': 2,
  'sync.writes': 6,
  'sync-restart.writes': 0,
  'sync-restart.gets': 0,
  'page.first': 1000,
  'page.filter': 50,
  'page.hover': 50,
  'page.change': 1,
  'page.size': 40,
  'page.report': 300,
  'page.rss': 200,
  'kv.time': 8,
  'kv.logins': 1,
  'kv.reads': 1,
  'kv-quiet.vault-writes': 0,
  'kv-quiet.reads': 1,
  'kv-quiet.writes': 0,
  'to-vault.time': 3,
  'to-vault.logins': 1,
  'to-vault.versions': 1,
};

/** How many times as large as the bare client's figure of the same run. */
const TIMES_BARE: Readonly<Record<string, number>> = { 'wide.time': 1.4 };

/** Only the API server's label selector keeps bytes small, and sources with annotations cannot be selected by it. */
const BYTES: Readonly<Record<'mirrors' | 'annotated', Readonly<Record<string, Limit>>>> = {
  mirrors: { 'nothing.read': 4, 'restart.read': { 0: 2, 100_000: 4 } },
  annotated: { 'nothing.read': { 0: 8, 100_000: 60 }, 'restart.read': { 0: 6, 100_000: 60 } },
};

/** The limit for a figure of this run; `undefined`: it has none. */
export function limitOf({ id, bare }: Figure, { system, unrelated }: BenchOptions): number | undefined {
  const times = TIMES_BARE[id];
  if (times !== undefined && bare !== undefined) return times * bare;
  const limit = LIMITS[id] ?? BYTES[system === 'mirrors' ? 'mirrors' : 'annotated'][id];
  if (limit === undefined || typeof limit === 'number') return limit;
  const steps = Object.entries(limit).filter(([from]) => Number(from) <= unrelated);
  return steps.at(-1)?.[1];
}
