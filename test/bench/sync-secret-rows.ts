/**
 * The rows of SyncSecret, in the order of measurement. When a row begins, both clusters are as the previous row left
 * them: with 500 SyncSecrets, and both programs are running. Before the first row, the bare client is measured without
 * them.
 */
import type { Json } from '../support/api.ts';
import { Latencies } from './copy-tracker.ts';
import type { Environment } from './environment.ts';
import { callsIn, type RequestCounts, writesIn } from './request-log.ts';
import { describe, type Figure, MEGA, type Row, seconds } from './rows.ts';
import {
  keyOf,
  MANAGEMENT_NAMESPACE,
  pathOf,
  type Place,
  places,
  SYNC_SECRETS,
  syncSecretsPath,
} from './sync-secret-load.ts';
import { type BareTimes, type Program, PROGRAMS, type SyncSecretWork } from './sync-secret-work.ts';
import { generationPatch, secretsPath, unrelatedSecrets } from './workload.ts';

const CHANGES = 50;
const BY_HAND = 20;
const IDLE_MS = 20_000;
const UNRELATED_CHANGES = 500;
const KIB_PER_MIB = 1024;
/** The first generation of all SyncSecrets. */
const FIRST = '1';

const keysOf = (where: readonly Place[]): string[] => where.map(keyOf);
const NOTHING = async (): Promise<void> => undefined;

export function syncSecretRows(work: SyncSecretWork): Row[] {
  let bare: BareTimes | undefined;
  return [
    {
      id: 'sync',
      always: true,
      measure: async (environment) => {
        bare = await work.bare();
        return await fromNothing(work, environment, bare);
      },
    },
    { id: 'sync-change', measure: (environment) => change(work, environment) },
    { id: 'sync-repair', measure: (environment) => repair(work, environment) },
    { id: 'sync-idle', measure: () => idle(work) },
    { id: 'sync-restart', measure: (environment) => restart(work, environment) },
    { id: 'sync-removed', measure: (environment) => removed(work, environment, bare) },
    { id: 'sync-wide', onlyIfNamed: true, measure: (environment, before) => wide(work, environment, before, bare) },
  ];
}

/** Starts both programs. Waits until all Secrets exist, and all SyncSecrets in the tenant cluster report it. */
async function startAndSync(
  work: SyncSecretWork,
  { tracker, options }: Environment,
  where: readonly Place[],
): Promise<{ readonly secrets: Latencies; readonly phases: Latencies }> {
  const [secrets, phases] = await Promise.all([
    tracker.expect(keysOf(where), FIRST, options.timeoutMs, () => work.startPrograms()),
    work.phases.expect(keysOf(where), FIRST, options.timeoutMs, NOTHING),
  ]);
  await work.settled();
  return { secrets, phases };
}

async function fromNothing(work: SyncSecretWork, environment: Environment, bare: BareTimes): Promise<Figure[]> {
  const where = places(SYNC_SECRETS);
  await work.create(where, FIRST);
  const { secrets, phases } = await startAndSync(work, environment, where);
  const counts = work.requests();
  return [
    {
      id: 'sync.time',
      title: '500 Secrets from nothing, starts included',
      value: seconds(secrets.last),
      unit: 's',
      bare: seconds(bare.create.ms),
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
      value: writesIn(counts) / SYNC_SECRETS,
      unit: '',
      note: describe(counts),
    },
    { id: 'sync.cpu', title: '… CPU of both', value: work.cpuSeconds(), unit: 's', bare: bare.create.cpuSeconds },
    { id: 'sync.read', title: '… bytes read by both', value: work.bytesRead() / MEGA, unit: 'MB' },
    ...memoryFigures(work, 'sync', '…'),
  ];
}

function memoryFigures(work: SyncSecretWork, id: string, title: string): Figure[] {
  return PROGRAMS.flatMap((name) => {
    const peak = work.program(name).meter.peak();
    return [
      { id: `${id}.${name}.rss`, title: `${title} peak RSS of ${name}`, value: peak.rssMiB, unit: 'MiB' as const },
      {
        id: `${id}.${name}.private`,
        title: `${title} peak private memory of ${name}`,
        value: peak.privateMiB,
        unit: 'MiB' as const,
      },
    ];
  });
}

async function change(work: SyncSecretWork, { tracker, options }: Environment): Promise<Figure[]> {
  work.resetCounters();
  const secrets: number[] = [];
  const phases: number[] = [];
  for (const [round, place] of places(CHANGES).entries()) {
    const generation = `change-${round}`;
    const [secret, phase] = await Promise.all([
      tracker.expect([keyOf(place)], generation, options.timeoutMs, () => work.change(place, generation)),
      work.phases.expect([keyOf(place)], generation, options.timeoutMs, NOTHING),
    ]);
    secrets.push(secret.last);
    phases.push(phase.last);
  }
  await work.settled();
  const counts = work.requests();
  const [toSecret, toPhase] = [new Latencies(secrets), new Latencies(phases)];
  return [
    {
      id: 'sync-change.time',
      title: 'one SyncSecret changes → Secret, p99',
      value: seconds(toSecret.quantile(0.99)),
      unit: 's',
      note: half(toSecret),
    },
    {
      id: 'sync-change.phase',
      title: '… → phase, p99',
      value: seconds(toPhase.quantile(0.99)),
      unit: 's',
      note: half(toPhase),
    },
    {
      id: 'sync-change.writes',
      title: '… writes',
      value: writesIn(counts) / CHANGES,
      unit: '',
      note: describe(counts),
    },
  ];
}

/** How a user changes objects of the management cluster. The programs must undo the change. */
interface Damage {
  readonly id: string;
  readonly title: string;
  /** Whether the copy shows that the change was undone. If false, the Secret shows it. */
  readonly isCopy: boolean;
  readonly harm: (path: string) => Promise<unknown>;
}

async function repair(work: SyncSecretWork, { tracker, options }: Environment): Promise<Figure[]> {
  const api = work.managementApi;
  const edit = (path: string): Promise<unknown> => api.patch(path, generationPatch('edited by hand'));
  const remove = (path: string): Promise<unknown> => api.delete(path);
  const damages: Damage[] = [
    { id: 'secret-edited', title: 'Secret edited by hand → repaired, p99', isCopy: false, harm: edit },
    { id: 'secret-deleted', title: 'Secret deleted by hand → back, p99', isCopy: false, harm: remove },
    { id: 'copy-edited', title: 'copy edited by hand → repaired, p99', isCopy: true, harm: edit },
    { id: 'copy-deleted', title: 'copy deleted by hand → its Secret is back, p99', isCopy: false, harm: remove },
  ];
  const figures: Figure[] = [];
  for (const { id, title, isCopy, harm } of damages) {
    const times: number[] = [];
    for (const place of places(BY_HAND, CHANGES)) {
      const { metadata } = await work.tenantApi.get(pathOf(place));
      const copyPath = `${syncSecretsPath(MANAGEMENT_NAMESPACE)}/${metadata.uid}`;
      const copy: Json = await api.get(copyPath);
      const path = id.startsWith('copy') ? copyPath : `${secretsPath(MANAGEMENT_NAMESPACE)}/${copy.metadata.uid}`;
      const latencies = await (isCopy ? work.copies : tracker).expect([keyOf(place)], FIRST, options.timeoutMs, () =>
        harm(path),
      );
      times.push(latencies.last);
    }
    await work.settled();
    const latencies = new Latencies(times);
    figures.push({
      id: `sync-repair.${id}`,
      title,
      value: seconds(latencies.quantile(0.99)),
      unit: 's',
      note: half(latencies),
    });
  }
  return figures;
}

async function idle(work: SyncSecretWork): Promise<Figure[]> {
  await work.settled();
  work.resetCounters();
  const cpuBefore = work.cpuSeconds();
  await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
  const quiet = work.requests();
  const cpuIdle = work.cpuSeconds() - cpuBefore;
  work.resetCounters();
  const secrets = [...unrelatedSecrets(UNRELATED_CHANGES)].map(({ metadata }) => metadata);
  for (const api of [work.tenantApi, work.managementApi]) {
    await Promise.all(
      secrets.map(({ namespace, name }) => api.patch(`${secretsPath(namespace)}/${name}`, generationPatch('2'))),
    );
  }
  await work.settled();
  const unrelated = work.requests();
  return [
    {
      id: 'sync-idle.requests',
      title: 'idle 20 s: requests but watches',
      value: callsIn(quiet),
      unit: '',
      note: describe(quiet),
    },
    { id: 'sync-idle.cpu', title: '… CPU of both', value: cpuIdle, unit: 's' },
    {
      id: 'sync-idle.unrelated',
      title: '500 unrelated Secrets change in each cluster: requests but watches',
      value: callsIn(unrelated),
      unit: '',
      note: describe(unrelated),
    },
  ];
}

async function restart(work: SyncSecretWork, { options }: Environment): Promise<Figure[]> {
  await work.startPrograms();
  const ready = await Promise.all(PROGRAMS.map((name) => work.program(name).ready(options.timeoutMs)));
  await work.settled();
  const counts = work.requests();
  return [
    { id: 'sync-restart.writes', title: 'restart of a settled state: writes', value: writesIn(counts), unit: '' },
    {
      id: 'sync-restart.gets',
      title: '… GET of a Secret or SyncSecret',
      value: getsIn(counts),
      unit: '',
      note: describe(counts),
    },
    {
      id: 'sync-restart.ready',
      title: '… until both are ready',
      value: seconds(Math.max(...ready.map(Number))),
      unit: 's',
    },
    { id: 'sync-restart.read', title: '… bytes read by both', value: work.bytesRead() / MEGA, unit: 'MB' },
    { id: 'sync-restart.cpu', title: '… CPU of both', value: work.cpuSeconds(), unit: 's' },
    ...memoryFigures(work, 'sync-restart', '…'),
  ];
}

async function removed(
  work: SyncSecretWork,
  { tracker, options }: Environment,
  bare: BareTimes | undefined,
): Promise<Figure[]> {
  const where = places(SYNC_SECRETS);
  work.resetCounters();
  const [secrets, objects] = await Promise.all([
    tracker.expect(keysOf(where), undefined, options.timeoutMs, () => work.remove(where)),
    work.phases.expect(keysOf(where), undefined, options.timeoutMs, NOTHING),
  ]);
  await work.settled();
  const last = Math.max(secrets.last, objects.last);
  return [
    {
      id: 'sync-removed.time',
      title: '500 SyncSecrets deleted → all gone in both clusters',
      value: seconds(last),
      unit: 's',
      ...(bare === undefined ? {} : { bare: seconds(bare.remove.ms) }),
      note: `${describe(work.requests())}; the Secrets were gone after ${seconds(secrets.last).toFixed(2)} s`,
    },
  ];
}

/** Measures many SyncSecrets after a restart of both programs. @param bare - the bare client's times for 500 */
async function wide(
  work: SyncSecretWork,
  environment: Environment,
  before: readonly Figure[],
  bare: BareTimes | undefined,
): Promise<Figure[]> {
  if (!before.some(({ id }) => id === 'sync-removed.time')) await removed(work, environment, undefined);
  await work.stopPrograms();
  const count = environment.options.syncSecrets;
  const where = places(count);
  await work.create(where, FIRST);
  const { secrets, phases } = await startAndSync(work, environment, where);
  const counts = work.requests();
  const each = (name: Program): Figure => {
    const peakBefore = before.find(({ id }) => id === `sync.${name}.private`)?.value ?? Number.NaN;
    const peak = work.program(name).meter.peak().privateMiB;
    return {
      id: `sync-wide.${name}.each`,
      title: `… peak private memory of ${name}, each SyncSecret above 500`,
      value: ((peak - peakBefore) * KIB_PER_MIB) / (count - SYNC_SECRETS),
      unit: 'kB',
    };
  };
  const figures: Figure[] = [
    {
      id: 'sync-wide.time',
      title: `${count} Secrets from nothing, starts included`,
      value: seconds(secrets.last),
      unit: 's',
      ...(bare === undefined ? {} : { bare: (seconds(bare.create.ms) * count) / SYNC_SECRETS }),
      note: `all phases after ${seconds(phases.last).toFixed(1)} s`,
    },
    {
      id: 'sync-wide.writes',
      title: '… writes of each',
      value: writesIn(counts) / count,
      unit: '',
      note: describe(counts),
    },
    {
      id: 'sync-wide.cpu',
      title: '… CPU of both',
      value: work.cpuSeconds(),
      unit: 's',
      ...(bare === undefined ? {} : { bare: (bare.create.cpuSeconds * count) / SYNC_SECRETS }),
    },
    ...memoryFigures(work, 'sync-wide', '…'),
    ...PROGRAMS.map(each),
  ];
  await work.startPrograms();
  await Promise.all(PROGRAMS.map((name) => work.program(name).ready(environment.options.timeoutMs)));
  await work.settled();
  const again = work.requests();
  return [
    ...figures,
    {
      id: 'sync-wide.restart-writes',
      title: '… restart: writes',
      value: writesIn(again),
      unit: '',
      note: describe(again),
    },
    { id: 'sync-wide.restart-read', title: '… restart: bytes read', value: work.bytesRead() / MEGA, unit: 'MB' },
    ...memoryFigures(work, 'sync-wide.restart', '… restart:'),
  ];
}

/**
 * The number of reads of single Secrets and SyncSecrets. (Reads of the namespace kube-system, whose uid identifies the
 * cluster, do not count.)
 */
function getsIn(counts: RequestCounts): number {
  return ['secrets', 'syncsecrets'].reduce((sum, what) => sum + (counts.get(`get ${what}`) ?? 0), 0);
}

function half(latencies: Latencies): string {
  return `p50 ${Math.round(latencies.quantile(0.5))} ms`;
}
