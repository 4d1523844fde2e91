/**
 * The rows with 20,000 copies (20 sources, each in 1,000 namespaces) and with 100,000 (50 sources, each in 2,000). Before
 * such a row, the copies of the other rows are deleted.
 */
import { bareCreateInto, bareUpdate } from './bare-calls.ts';
import type { BareTime } from './bare-client.ts';
import type { Environment } from './environment.ts';
import { writesIn } from './request-log.ts';
import { type Figure, MEGA, removed, type Row, seconds } from './rows.ts';
import {
  copyKeys,
  generationPatch,
  namespaceObject,
  secretsPath,
  sourceNames,
  WIDE_FLEET,
  wideBareNames,
  wideBareNamespaces,
  wideNamespaces,
} from './workload.ts';

const KIB_PER_MIB = 1024;
/** How many copies the row `nothing` has. Its peak memory is subtracted from the peak of this row. */
const COPIES_BEFORE = 1000;

/** One of these rows, by its id and its numbers. */
interface Size {
  readonly id: string;
  readonly sources: number;
  readonly namespaces: number;
}

export const WIDE_ROW = wideRow({ id: 'wide', sources: 20, namespaces: 1000 });
export const WIDEST_ROW = wideRow({ id: 'widest', sources: 50, namespaces: 2000 });

function wideRow(size: Size): Row {
  return { id: size.id, onlyIfNamed: true, measure: async (environment, before) => wide(environment, before, size) };
}

async function wide(environment: Environment, before: readonly Figure[], size: Size): Promise<Figure[]> {
  const { tracker, options, plane, copier } = environment;
  const { id } = size;
  const [names, selected] = [sourceNames(size.sources), wideNamespaces(size.namespaces)];
  const all = amount(names.length * selected.length);
  if (!before.some((figure) => figure.id === 'removed.time')) await removed(environment);
  await environment.stop();
  const namespaces = [WIDE_FLEET.sourceNamespace, ...selected, ...wideBareNamespaces()];
  await plane.api.createMany(namespaces.map(namespaceObject));
  await copier.createSources(plane.api, '1', { ...WIDE_FLEET, names });
  const bare = await bareTimes(environment, selected.length);
  const copies = copyKeys(selected, names);
  // The bare client makes 20,000 Secrets, whatever the size of the row.
  const bareShare = copies.length / (wideBareNamespaces().length * wideBareNames().length);
  const latencies = await tracker.expect(copies, '1', options.timeoutMs, () => environment.start());
  await environment.settled();
  const peak = environment.subject.meter.peak();
  const settled = environment.subject.meter.memory();
  const cpuSeconds = environment.subject.meter.cpuSeconds();
  const { bytesIn, bytesOut } = environment.proxy.counters;
  const peakBefore = before.find((figure) => figure.id === 'nothing.private')?.value ?? Number.NaN;
  const perCopy = (privateMiB: number): number =>
    ((privateMiB - peakBefore) * KIB_PER_MIB) / (copies.length - COPIES_BEFORE);
  return [
    {
      id: `${id}.time`,
      title: `${all} copies from nothing, start included`,
      value: seconds(latencies.last),
      unit: 's',
      bare: seconds(bare.create.ms) * bareShare,
    },
    { id: `${id}.cpu`, title: '… CPU', value: cpuSeconds, unit: 's', bare: bare.create.cpuSeconds * bareShare },
    { id: `${id}.rss`, title: '… peak RSS', value: peak.rssMiB, unit: 'MiB' },
    {
      id: `${id}.private`,
      title: '… peak private memory',
      value: peak.privateMiB,
      unit: 'MiB',
      note: `${settled.privateMiB.toFixed(1)} MiB when all was done`,
    },
    { id: `${id}.per-copy`, title: '… the same, each copy above 1,000', value: perCopy(peak.privateMiB), unit: 'kB' },
    { id: `${id}.read`, title: '… bytes read', value: bytesIn / MEGA, unit: 'MB' },
    { id: `${id}.sent`, title: '… bytes sent', value: bytesOut / MEGA, unit: 'MB' },
    ...(await oneSource(environment, bare.update, id, all, selected)),
    ...(await restart(environment, id, all, perCopy)),
  ];
}

/** How long the bare client needs for 20,000 Secrets in other namespaces, and to update `updates` of them. */
async function bareTimes(
  { bare, plane }: Environment,
  updates: number,
): Promise<{ readonly create: BareTime; readonly update: BareTime }> {
  const [namespaces, names] = [wideBareNamespaces(), wideBareNames()];
  const create = await bare.run(bareCreateInto(namespaces, names));
  const update = await bare.run(bareUpdate(names.slice(0, updates / namespaces.length), namespaces));
  for (const namespace of namespaces) await plane.api.delete(secretsPath(namespace));
  return { create, update };
}

async function oneSource(
  environment: Environment,
  bare: BareTime,
  id: string,
  all: string,
  namespaces: readonly string[],
): Promise<Figure[]> {
  const { tracker, options, plane } = environment;
  const [name = ''] = sourceNames();
  const cpuBefore = environment.subject.meter.cpuSeconds();
  const latencies = await tracker.expect(copyKeys(namespaces, [name]), '2', options.timeoutMs, () =>
    plane.api.patch(`${secretsPath(WIDE_FLEET.sourceNamespace)}/${name}`, generationPatch('2')),
  );
  await environment.settled();
  const cpuSeconds = environment.subject.meter.cpuSeconds() - cpuBefore;
  return [
    {
      id: `${id}.one-source`,
      title: `one source changes → ${amount(namespaces.length)} of ${all} copies`,
      value: seconds(latencies.last),
      unit: 's',
      bare: seconds(bare.ms),
      note: `${cpuSeconds.toFixed(2)} s of CPU`,
    },
  ];
}

async function restart(
  environment: Environment,
  id: string,
  all: string,
  perCopy: (privateMiB: number) => number,
): Promise<Figure[]> {
  const subject = await environment.start();
  const readyMs = await subject.ready(environment.options.timeoutMs);
  await environment.settled();
  const peak = subject.meter.peak();
  return [
    {
      id: `${id}.restart.writes`,
      title: `restart with ${all} copies: writes`,
      value: writesIn(environment.requests.counts()),
      unit: '',
    },
    { id: `${id}.restart.read`, title: '… bytes read', value: environment.proxy.counters.bytesIn / MEGA, unit: 'MB' },
    ...(readyMs === undefined
      ? []
      : [{ id: `${id}.restart.ready`, title: '… until ready', value: seconds(readyMs), unit: 's' as const }]),
    { id: `${id}.restart.cpu`, title: '… CPU', value: subject.meter.cpuSeconds(), unit: 's' },
    { id: `${id}.restart.private`, title: '… peak private memory', value: peak.privateMiB, unit: 'MiB' },
    {
      id: `${id}.restart.per-copy`,
      title: '… the same, each copy above 1,000',
      value: perCopy(peak.privateMiB),
      unit: 'kB',
    },
  ];
}

/** A number of copies or namespaces as it is printed: `20,000`. */
function amount(count: number): string {
  return count.toLocaleString('en');
}
