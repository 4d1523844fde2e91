/**
 * The row with 20,000 copies: 20 sources, each in 1,000 namespaces. Before the row, the copies of the other rows are
 * deleted; after the row, its own copies.
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

export const WIDE_ROW: Row = { id: 'wide', onlyIfNamed: true, measure: wide };

async function wide(environment: Environment, before: readonly Figure[]): Promise<Figure[]> {
  const { tracker, options, plane, copier } = environment;
  if (!before.some(({ id }) => id === 'removed.time')) await removed(environment);
  await environment.stop();
  const namespaces = [WIDE_FLEET.sourceNamespace, ...wideNamespaces(), ...wideBareNamespaces()];
  await plane.api.createMany(namespaces.map(namespaceObject));
  await copier.createSources(plane.api, '1', WIDE_FLEET);
  const bare = await bareTimes(environment);
  const copies = copyKeys(wideNamespaces());
  const latencies = await tracker.expect(copies, '1', options.timeoutMs, () => environment.start());
  await environment.settled();
  const peak = environment.subject.meter.peak();
  const settled = environment.subject.meter.memory();
  const cpuSeconds = environment.subject.meter.cpuSeconds();
  const { bytesIn, bytesOut } = environment.proxy.counters;
  const peakBefore = before.find(({ id }) => id === 'nothing.private')?.value ?? Number.NaN;
  const perCopy = ((peak.privateMiB - peakBefore) * KIB_PER_MIB) / (copies.length - COPIES_BEFORE);
  return [
    {
      id: 'wide.time',
      title: '20,000 copies from nothing, start included',
      value: seconds(latencies.last),
      unit: 's',
      bare: seconds(bare.create.ms),
    },
    { id: 'wide.cpu', title: '… CPU', value: cpuSeconds, unit: 's', bare: bare.create.cpuSeconds },
    { id: 'wide.rss', title: '… peak RSS', value: peak.rssMiB, unit: 'MiB' },
    {
      id: 'wide.private',
      title: '… peak private memory',
      value: peak.privateMiB,
      unit: 'MiB',
      note: `${settled.privateMiB.toFixed(1)} MiB when all was done`,
    },
    { id: 'wide.per-copy', title: '… the same, each copy above 1,000', value: perCopy, unit: 'kB' },
    { id: 'wide.read', title: '… bytes read', value: bytesIn / MEGA, unit: 'MB' },
    { id: 'wide.sent', title: '… bytes sent', value: bytesOut / MEGA, unit: 'MB' },
    ...(await oneSource(environment, bare.update)),
    ...(await restart(environment)),
  ];
}

/** How long the bare client needs for the same writes, in other namespaces. */
async function bareTimes({
  bare,
  plane,
}: Environment): Promise<{ readonly create: BareTime; readonly update: BareTime }> {
  const [namespaces, names] = [wideBareNamespaces(), wideBareNames()];
  const create = await bare.run(bareCreateInto(namespaces, names));
  const update = await bare.run(bareUpdate(names.slice(0, wideNamespaces().length / namespaces.length), namespaces));
  for (const namespace of namespaces) await plane.api.delete(secretsPath(namespace));
  return { create, update };
}

async function oneSource(environment: Environment, bare: BareTime): Promise<Figure[]> {
  const { tracker, options, plane } = environment;
  const [name = ''] = sourceNames();
  const cpuBefore = environment.subject.meter.cpuSeconds();
  const latencies = await tracker.expect(copyKeys(wideNamespaces(), [name]), '2', options.timeoutMs, () =>
    plane.api.patch(`${secretsPath(WIDE_FLEET.sourceNamespace)}/${name}`, generationPatch('2')),
  );
  await environment.settled();
  const cpuSeconds = environment.subject.meter.cpuSeconds() - cpuBefore;
  return [
    {
      id: 'wide.one-source',
      title: 'one source changes → 1,000 of 20,000 copies',
      value: seconds(latencies.last),
      unit: 's',
      bare: seconds(bare.ms),
      note: `${cpuSeconds.toFixed(2)} s of CPU`,
    },
  ];
}

async function restart(environment: Environment): Promise<Figure[]> {
  const subject = await environment.start();
  await subject.ready(environment.options.timeoutMs);
  await environment.settled();
  const peak = subject.meter.peak();
  return [
    {
      id: 'wide.restart.writes',
      title: 'restart with 20,000 copies: writes',
      value: writesIn(environment.requests.counts()),
      unit: '',
    },
    { id: 'wide.restart.read', title: '… bytes read', value: environment.proxy.counters.bytesIn / MEGA, unit: 'MB' },
    { id: 'wide.restart.cpu', title: '… CPU', value: subject.meter.cpuSeconds(), unit: 's' },
    { id: 'wide.restart.private', title: '… peak private memory', value: peak.privateMiB, unit: 'MiB' },
  ];
}
