/**
 * The rows of the table, in the order of measurement. When a row begins, the cluster is as the previous row left it:
 * with 1,000 copies, and the program is running.
 */
import type { TestApi } from '../support/api.ts';
import { bareCreate, bareCreateInto, bareRemove, bareUpdate } from './bare-calls.ts';
import type { BareTime } from './bare-client.ts';
import { Latencies } from './copy-tracker.ts';
import type { Environment } from './environment.ts';
import { callsIn, writesIn, type RequestCounts } from './request-log.ts';
import {
  copyKey,
  copyKeys,
  generationOf,
  generationPatch,
  namespaceObject,
  secretsPath,
  SOURCE_NAMESPACE,
  sourceNames,
  targetNamespaces,
} from './workload.ts';

export type Unit = 's' | 'ms' | 'MiB' | 'MB' | 'kB' | '';

/** A measured value. */
export interface Figure {
  /** The key in limits.ts: `nothing.time`. */
  readonly id: string;
  readonly title: string;
  readonly value: number;
  readonly unit: Unit;
  /** The bare client's figure for the same work, measured in this run. */
  readonly bare?: number;
  readonly note?: string;
}

export interface Row {
  readonly id: string;
  /** Whether the row always runs, because later rows need its result. */
  readonly always?: boolean;
  /** Whether the row runs only if the user names it, because it takes long. */
  readonly onlyIfNamed?: boolean;
  /** @param before - the figures of all previous rows */
  measure(environment: Environment, before: readonly Figure[]): Promise<readonly Figure[]>;
}

/** How many times a short row is repeated. */
const ROUNDS = 5;
const BY_HAND = 20;
const IDLE_MS = 20_000;
export const MEGA = 1_000_000;

export const seconds = (ms: number): number => ms / 1000;
const patchSource = async (api: TestApi, name: string, generation: string): Promise<unknown> =>
  await api.patch(`${secretsPath(SOURCE_NAMESPACE)}/${name}`, generationPatch(generation));

export const ROWS: readonly Row[] = [
  { id: 'nothing', always: true, measure: fromNothing },
  { id: 'one-source', measure: oneSource },
  { id: 'all-sources', measure: allSources },
  { id: 'namespace', measure: newNamespace },
  { id: 'deleted', measure: deletedByHand },
  { id: 'edited', measure: editedByHand },
  { id: 'idle', measure: idle },
  { id: 'restart', measure: restart },
  { id: 'removed', measure: removed },
];

async function fromNothing(environment: Environment): Promise<Figure[]> {
  const { tracker, options, plane, copier } = environment;
  await copier.createSources(plane.api, '1');
  const bare = await environment.bare.run(bareCreate());
  await environment.bare.run(bareRemove());
  const latencies = await tracker.expect(copyKeys(), '1', options.timeoutMs, () => environment.start());
  await environment.settled();
  const { meter } = environment.subject;
  const peak = meter.peak();
  const { bytesIn, bytesOut, connections } = environment.proxy.counters;
  const counts = environment.requests.counts();
  return [
    {
      id: 'nothing.time',
      title: '1,000 copies from nothing, start included',
      value: seconds(latencies.last),
      unit: 's',
      bare: seconds(bare.ms),
    },
    {
      id: 'nothing.cpu',
      title: 'CPU for that, start included',
      value: meter.cpuSeconds(),
      unit: 's',
      bare: bare.cpuSeconds,
    },
    { id: 'nothing.rss', title: 'peak RSS, first start', value: peak.rssMiB, unit: 'MiB' },
    { id: 'nothing.private', title: 'peak private memory, first start', value: peak.privateMiB, unit: 'MiB' },
    { id: 'nothing.read', title: 'bytes read', value: bytesIn / MEGA, unit: 'MB' },
    { id: 'nothing.sent', title: 'bytes sent', value: bytesOut / MEGA, unit: 'MB' },
    {
      id: 'nothing.requests',
      title: 'requests but watches',
      value: callsIn(counts),
      unit: '',
      note: describe(counts),
    },
    { id: 'nothing.connections', title: 'connections opened', value: connections, unit: '' },
  ];
}

async function oneSource(environment: Environment): Promise<Figure[]> {
  const { tracker, options, plane } = environment;
  const bare = await bareUpdates(environment, [sourceNames()[0] ?? '']);
  const all: number[] = [];
  const lasts: number[] = [];
  for (const [round, name] of sourceNames().slice(0, ROUNDS).entries()) {
    const generation = `one-${round}`;
    const keys = copyKeys(targetNamespaces(), [name]);
    const latencies = await tracker.expect(keys, generation, options.timeoutMs, () =>
      patchSource(plane.api, name, generation),
    );
    all.push(...latencies.sorted);
    lasts.push(latencies.last);
    await environment.settled();
  }
  const copies = new Latencies(all);
  return [
    {
      id: 'one-source.time',
      title: 'one source changes → 50 copies',
      value: seconds(new Latencies(lasts).quantile(0.5)),
      unit: 's',
      bare: seconds(bare.ms),
      note: `each copy: p50 ${ms(copies.quantile(0.5))}, p99 ${ms(copies.quantile(0.99))}`,
    },
  ];
}

async function allSources(environment: Environment): Promise<Figure[]> {
  const { tracker, options, plane } = environment;
  const bare = await bareUpdates(environment, sourceNames());
  const cpuBefore = environment.subject.meter.cpuSeconds();
  const latencies = await tracker.expect(copyKeys(), 'all', options.timeoutMs, () =>
    Promise.all(sourceNames().map((name) => patchSource(plane.api, name, 'all'))),
  );
  await environment.settled();
  return [
    {
      id: 'all-sources.time',
      title: '20 sources change → 1,000 copies',
      value: seconds(latencies.last),
      unit: 's',
      bare: seconds(bare.ms),
      note: `each copy: p50 ${ms(latencies.quantile(0.5))}, p99 ${ms(latencies.quantile(0.99))}`,
    },
    {
      id: 'all-sources.cpu',
      title: 'CPU for that',
      value: environment.subject.meter.cpuSeconds() - cpuBefore,
      unit: 's',
      bare: bare.cpuSeconds,
    },
  ];
}

async function newNamespace(environment: Environment): Promise<Figure[]> {
  const { tracker, options, plane } = environment;
  const bare = await environment.bare.run(bareCreateInto(['bench-other-149']));
  const generations = new Map<string, string>();
  for (const name of sourceNames()) {
    generations.set(name, generationOf(await plane.api.get(`${secretsPath(SOURCE_NAMESPACE)}/${name}`)));
  }
  const generation = await alignGenerations(environment, generations);
  const lasts: number[] = [];
  const all: number[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const namespace = `bench-target-late-${round}`;
    const latencies = await tracker.expect(copyKeys([namespace]), generation, options.timeoutMs, () =>
      plane.api.create(namespaceObject(namespace)),
    );
    lasts.push(latencies.last);
    all.push(...latencies.sorted);
    await environment.settled();
  }
  const copies = new Latencies(all);
  return [
    {
      id: 'namespace.time',
      title: 'new namespace → 20 copies',
      value: seconds(new Latencies(lasts).quantile(0.5)),
      unit: 's',
      bare: seconds(bare.ms),
      note: `each copy: p50 ${ms(copies.quantile(0.5))}, p99 ${ms(copies.quantile(0.99))}`,
    },
  ];
}

/** Gives all sources the same generation: previous rows may have changed only some of them. @returns the generation */
async function alignGenerations(environment: Environment, generations: ReadonlyMap<string, string>): Promise<string> {
  const [first = ''] = generations.values();
  if ([...generations.values()].every((generation) => generation === first)) return first;
  await allSources(environment);
  return 'all';
}

async function byHand(
  environment: Environment,
  id: string,
  title: string,
  change: (api: TestApi, path: string) => Promise<unknown>,
): Promise<Figure[]> {
  const { tracker, options, plane } = environment;
  const times: number[] = [];
  for (let round = 0; round < BY_HAND; round += 1) {
    const namespace = targetNamespaces()[(round * 7) % 50] ?? '';
    const name = sourceNames()[round % 20] ?? '';
    const path = `${secretsPath(namespace)}/${name}`;
    const generation = generationOf(await plane.api.get(path));
    const latencies = await tracker.expect([copyKey(namespace, name)], generation, options.timeoutMs, () =>
      change(plane.api, path),
    );
    times.push(latencies.last);
  }
  await environment.settled();
  const latencies = new Latencies(times);
  const note = `p50 ${ms(latencies.quantile(0.5))}`;
  return [{ id: `${id}.time`, title, value: seconds(latencies.quantile(0.99)), unit: 's', note }];
}

async function deletedByHand(environment: Environment): Promise<Figure[]> {
  return await byHand(environment, 'deleted', 'copy deleted by hand → back, p99', (api, path) => api.delete(path));
}

async function editedByHand(environment: Environment): Promise<Figure[]> {
  return await byHand(environment, 'edited', 'copy edited by hand → repaired, p99', (api, path) =>
    api.patch(path, generationPatch('edited by hand')),
  );
}

async function idle(environment: Environment): Promise<Figure[]> {
  await environment.settled();
  environment.requests.reset();
  const cpuBefore = environment.subject.meter.cpuSeconds();
  await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
  const counts = environment.requests.counts();
  return [
    {
      id: 'idle.requests',
      title: 'idle 20 s: requests but watches',
      value: callsIn(counts),
      unit: '',
      note: describe(counts),
    },
    { id: 'idle.cpu', title: 'idle 20 s: CPU', value: environment.subject.meter.cpuSeconds() - cpuBefore, unit: 's' },
  ];
}

async function restart(environment: Environment): Promise<Figure[]> {
  const subject = await environment.start();
  const readyMs = await subject.ready(environment.options.timeoutMs);
  await environment.settled();
  const counts = environment.requests.counts();
  const peak = subject.meter.peak();
  return [
    { id: 'restart.writes', title: 'restart of a settled cluster: writes', value: writesIn(counts), unit: '' },
    { id: 'restart.read', title: 'restart: bytes read', value: environment.proxy.counters.bytesIn / MEGA, unit: 'MB' },
    ...(readyMs === undefined
      ? []
      : [{ id: 'restart.ready', title: 'restart: until ready', value: seconds(readyMs), unit: 's' as const }]),
    { id: 'restart.cpu', title: 'restart: CPU', value: subject.meter.cpuSeconds(), unit: 's' },
    { id: 'restart.rss', title: 'peak RSS, restart', value: peak.rssMiB, unit: 'MiB' },
    { id: 'restart.private', title: 'peak private memory, restart', value: peak.privateMiB, unit: 'MiB' },
    {
      id: 'restart.requests',
      title: 'restart: requests but watches',
      value: callsIn(counts),
      unit: '',
      note: describe(counts),
    },
  ];
}

export async function removed(environment: Environment): Promise<Figure[]> {
  const { tracker, options, plane, copier } = environment;
  await environment.bare.run(bareCreate());
  const bare = await environment.bare.run(bareRemove());
  const latencies = await tracker.expect(copyKeys(), undefined, options.timeoutMs, () =>
    copier.removeOwners(plane.api),
  );
  return [
    {
      id: 'removed.time',
      title: '1,000 copies removed with their owners',
      value: seconds(latencies.last),
      unit: 's',
      bare: seconds(bare.ms),
    },
  ];
}

/** What the bare client needs for the same updates, of copies that it has created. */
async function bareUpdates(environment: Environment, names: readonly string[]): Promise<BareTime> {
  await environment.bare.run(bareCreate(names));
  const time = await environment.bare.run(bareUpdate(names));
  await environment.bare.run(bareRemove(names));
  return time;
}

function ms(value: number): string {
  return `${Math.round(value)} ms`;
}

export function describe(counts: RequestCounts): string {
  return [...counts]
    .toSorted(([, a], [, b]) => b - a)
    .map(([key, count]) => `${count} ${key}`)
    .join(', ');
}
