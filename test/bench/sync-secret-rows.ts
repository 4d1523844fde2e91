/**
 * The rows of SyncSecret, in the order of measurement. When a row begins, both clusters are as the previous row left
 * them: with all SyncSecrets, and both programs are running.
 */
import { bareCreate, bareRemove } from './bare-calls.ts';
import type { Environment } from './environment.ts';
import { type RequestCounts, writesIn } from './request-log.ts';
import { describe, type Figure, MEGA, type Row, seconds } from './rows.ts';
import { keyOf, places } from './sync-secret-load.ts';
import { PROGRAMS, type SyncSecretWork } from './sync-secret-work.ts';

const GENERATION = '1';
const NOTHING = async (): Promise<void> => undefined;

export function syncSecretRows(work: SyncSecretWork): Row[] {
  return [
    { id: 'sync', always: true, measure: async (environment) => await fromNothing(work, environment) },
    { id: 'sync-restart', measure: async (environment) => await restart(work, environment) },
    { id: 'sync-removed', measure: async (environment) => await removed(work, environment) },
  ];
}

async function fromNothing(work: SyncSecretWork, environment: Environment): Promise<Figure[]> {
  const { tracker, options } = environment;
  const where = places(options.syncSecrets);
  const keys = where.map(keyOf);
  const bare = await environment.bare.run(bareCreate());
  await environment.bare.run(bareRemove());
  await work.create(where, GENERATION);
  const [secrets, phases] = await Promise.all([
    tracker.expect(keys, GENERATION, options.timeoutMs, () => work.startPrograms()),
    work.phases.expect(keys, GENERATION, options.timeoutMs, NOTHING),
  ]);
  await work.settled();
  const counts = work.requests();
  return [
    {
      id: 'sync.time',
      title: `${where.length} Secrets from nothing, starts included`,
      value: seconds(secrets.last),
      unit: 's',
      note: `the bare client creates 1,000 Secrets in ${seconds(bare.ms).toFixed(2)} s in this run`,
    },
    {
      id: 'sync.phases',
      title: '… then all phases in the tenant cluster',
      value: seconds(Math.max(0, phases.last - secrets.last)),
      unit: 's',
    },
    {
      id: 'sync.writes',
      title: '… writes of each SyncSecret',
      value: writesIn(counts) / where.length,
      unit: '',
      note: describe(counts),
    },
    { id: 'sync.cpu', title: '… CPU of both', value: work.cpuSeconds(), unit: 's' },
    { id: 'sync.read', title: '… bytes read by both', value: work.bytesRead() / MEGA, unit: 'MB' },
    ...memoryFigures(work, 'sync'),
  ];
}

function memoryFigures(work: SyncSecretWork, id: string): Figure[] {
  return PROGRAMS.flatMap((name): Figure[] => {
    const { rssMiB, privateMiB } = work.program(name).meter.peak();
    return [
      { id: `${id}.${name}.rss`, title: `… peak RSS of ${name}`, value: rssMiB, unit: 'MiB' },
      { id: `${id}.${name}.private`, title: `… peak private memory of ${name}`, value: privateMiB, unit: 'MiB' },
    ];
  });
}

async function restart(work: SyncSecretWork, { options }: Environment): Promise<Figure[]> {
  await work.startPrograms();
  const ready = await Promise.all(PROGRAMS.map((name) => work.program(name).ready(options.timeoutMs)));
  await work.settled();
  const counts = work.requests();
  const readyMs = Math.max(...ready.map(Number));
  return [
    { id: 'sync-restart.writes', title: 'restart of a settled state: writes', value: writesIn(counts), unit: '' },
    {
      id: 'sync-restart.gets',
      title: '… GET of a Secret or SyncSecret',
      value: getsIn(counts),
      unit: '',
      note: describe(counts),
    },
    { id: 'sync-restart.ready', title: '… until both are ready', value: seconds(readyMs), unit: 's' },
    { id: 'sync-restart.read', title: '… bytes read by both', value: work.bytesRead() / MEGA, unit: 'MB' },
    { id: 'sync-restart.cpu', title: '… CPU of both', value: work.cpuSeconds(), unit: 's' },
    ...memoryFigures(work, 'sync-restart'),
  ];
}

async function removed(work: SyncSecretWork, { tracker, options }: Environment): Promise<Figure[]> {
  const where = places(options.syncSecrets);
  const keys = where.map(keyOf);
  work.resetCounters();
  const [secrets, objects] = await Promise.all([
    tracker.expect(keys, undefined, options.timeoutMs, () => work.remove(where)),
    work.phases.expect(keys, undefined, options.timeoutMs, NOTHING),
  ]);
  await work.settled();
  return [
    {
      id: 'sync-removed.time',
      title: `${where.length} SyncSecrets deleted → all gone in both clusters`,
      value: seconds(Math.max(secrets.last, objects.last)),
      unit: 's',
      note: `${describe(work.requests())}; the Secrets were gone after ${seconds(secrets.last).toFixed(2)} s`,
    },
  ];
}

/** How many single Secrets and SyncSecrets were read. The namespace kube-system, whose uid names the cluster, is none. */
function getsIn(counts: RequestCounts): number {
  return ['secrets', 'syncsecrets'].reduce((sum, what) => sum + (counts.get(`get ${what}`) ?? 0), 0);
}
