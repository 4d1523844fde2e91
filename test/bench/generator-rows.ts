/**
 * The rows of the generator, in the order of measurement. The time for values begins with the last status "not ready",
 * and ends with the last write in Vault's audit log. The time for an annotation (it makes ESO read the values again)
 * begins with the write of the value, and ends with the patch in the API server's audit log.
 */
import { bareCreate, bareRemove } from './bare-calls.ts';
import { OverdueError } from './copy-tracker.ts';
import type { Environment } from './environment.ts';
import { entryOf, FAILING, failingPlaces, keyOf } from './generator-load.ts';
import type { GeneratorWork } from './generator-work.ts';
import { writesIn } from './request-log.ts';
import { describe, type Figure, type Row, seconds } from './rows.ts';
import { mostOfOnePath } from './vault-log.ts';

const LOOK_MS = 20;
const KIB_PER_MIB = 1024;

export function generatorRows(work: GeneratorWork): Row[] {
  return [
    { id: 'generate-ready', always: true, measure: async (environment) => await ready(work, environment) },
    { id: 'generate', always: true, measure: async (environment) => await generate(work, environment) },
    { id: 'generate-restart', measure: async (environment) => await restart(work, environment) },
  ];
}

/** Measures the peak of private memory at a start: first with a tenth of the ready ExternalSecrets, then with all. */
async function ready(work: GeneratorWork, environment: Environment): Promise<Figure[]> {
  const { unrelated } = environment.options;
  const few = Math.floor(unrelated / 10);
  await work.createReady(0, few);
  const before = await startedMiB(environment);
  await environment.stop();
  await work.createReady(few, unrelated);
  const after = await startedMiB(environment);
  return [
    {
      id: 'generate-ready.private',
      title: `start beside ${unrelated} ready ExternalSecrets: peak private memory`,
      value: after,
      unit: 'MiB',
    },
    {
      id: 'generate-ready.each',
      title: '… each of them',
      value: ((after - before) * KIB_PER_MIB) / (unrelated - few),
      unit: 'kB',
      note: `${before.toFixed(1)} MiB beside ${few}, ${after.toFixed(1)} MiB beside ${unrelated}`,
    },
  ];
}

async function startedMiB(environment: Environment): Promise<number> {
  const subject = await environment.start();
  await subject.ready(environment.options.timeoutMs);
  await environment.settled();
  return subject.meter.peak().privateMiB;
}

async function generate(work: GeneratorWork, environment: Environment): Promise<Figure[]> {
  const { log } = work;
  await environment.stop();
  const bare = await environment.bare.run(bareCreate());
  await environment.bare.run(bareRemove());
  const subject = await environment.start();
  await subject.ready(environment.options.timeoutMs);
  await environment.settled();
  await work.createFailing();
  await environment.settled();
  environment.requests.reset();
  log.reset();
  const cpuBefore = subject.meter.cpuSeconds();
  const { failedMs, valuesMs, touchedMs } = await made(work, environment);
  const counts = environment.requests.counts();
  const peak = subject.meter.peak();
  return [
    {
      id: 'generate.values',
      title: `${FAILING} ExternalSecrets begin to fail → all values in Vault, after the last`,
      value: seconds(valuesMs),
      unit: 's',
      note: `all had begun to fail after ${seconds(failedMs).toFixed(2)} s; the bare client creates 1,000 Secrets in ${seconds(bare.ms).toFixed(2)} s in this run; ${describe(counts)}`,
    },
    {
      id: 'generate.touched',
      title: '… each touched after its write, at most',
      value: seconds(touchedMs),
      unit: 's',
    },
    { id: 'generate.reads', title: '… reads of a path, at most', value: mostOfOnePath(log.valueReads), unit: '' },
    {
      id: 'generate.vault-writes',
      title: '… writes of a path, at most',
      value: mostOfOnePath(log.writes),
      unit: '',
      note: log.describe(),
    },
    { id: 'generate.writes', title: '… writes to Kubernetes, each', value: writesIn(counts) / FAILING, unit: '' },
    { id: 'generate.cpu', title: '… CPU', value: subject.meter.cpuSeconds() - cpuBefore, unit: 's' },
    { id: 'generate.rss', title: '… peak RSS', value: peak.rssMiB, unit: 'MiB' },
    { id: 'generate.private', title: '… peak private memory', value: peak.privateMiB, unit: 'MiB' },
  ];
}

async function restart(work: GeneratorWork, environment: Environment): Promise<Figure[]> {
  await work.heal();
  await environment.settled();
  work.log.reset();
  const subject = await environment.start();
  const readyMs = await subject.ready(environment.options.timeoutMs);
  await environment.settled();
  const peak = subject.meter.peak();
  const counts = environment.requests.counts();
  return [
    {
      id: 'generate-restart.writes',
      title: 'restart where nothing fails: writes',
      value: writesIn(counts),
      unit: '',
      note: describe(counts),
    },
    {
      id: 'generate-restart.vault',
      title: '… calls to Vault',
      value: work.log.count,
      unit: '',
      note: work.log.describe(),
    },
    ...(readyMs === undefined
      ? []
      : [{ id: 'generate-restart.ready', title: '… until ready', value: seconds(readyMs), unit: 's' as const }]),
    { id: 'generate-restart.rss', title: '… peak RSS', value: peak.rssMiB, unit: 'MiB' },
    { id: 'generate-restart.private', title: '… peak private memory', value: peak.privateMiB, unit: 'MiB' },
  ];
}

interface Made {
  /** Time from the first to the last status "not ready", ms. */
  readonly failedMs: number;
  /** Time from the last status "not ready" to the last write to Vault, ms. */
  readonly valuesMs: number;
  /** The longest time from the write of a value to the annotation of its ExternalSecret, ms. */
  readonly touchedMs: number;
}

/** Makes 500 ExternalSecrets fail. Waits until all have their values and annotations. @throws OverdueError */
async function made(work: GeneratorWork, environment: Environment): Promise<Made> {
  const places = failingPlaces();
  const { at, ms: failedMs } = await work.fail();
  for (;;) {
    const written = new Map(work.log.writes.map(({ path, at: time }) => [path, time]));
    const touched = environment.requests.timesOf('patch externalsecrets');
    const missing = places.filter((place) => !touched.has(keyOf(place)));
    if (missing.length === 0) {
      const writeOf = places.map((place) => written.get(`secret/data/${entryOf(place)}`) ?? Number.NaN);
      await environment.settled();
      const delays = places.map((place, n) => (touched.get(keyOf(place)) ?? Number.NaN) - (writeOf[n] ?? Number.NaN));
      return { failedMs, valuesMs: Math.max(...writeOf) - at, touchedMs: Math.max(...delays) };
    }
    if (Date.now() - at > environment.options.timeoutMs) {
      throw new OverdueError(`${missing.length} of ${places.length} ExternalSecrets were not touched`);
    }
    // `subject` throws an error with the reason, if the program has exited.
    void environment.subject;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
