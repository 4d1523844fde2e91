/**
 * The rows of SecretMirrors with Vault, in the order of measurement. Numbers and times of calls to Vault come from its
 * audit log.
 */
import { bareCreate, bareRemove } from './bare-calls.ts';
import { OverdueError } from './copy-tracker.ts';
import type { Environment } from './environment.ts';
import { describe, type Figure, type Row, seconds } from './rows.ts';
import { writesIn } from './request-log.ts';
import { mostOfOnePath } from './vault-log.ts';
import { mirroredKeys, MIRRORS_OF_AN_ENTRY, outNames, POLL_SECONDS, type VaultWork } from './vault-work.ts';

/** A time in which Keyferry polls each entry several times, ms. */
const QUIET_MS = 3 * POLL_SECONDS * 1000;
/** The shortest time between two polls, ms. Polls come up to a tenth of the period early, so that they are spread. */
const SHORTEST_POLL_MS = 0.88 * POLL_SECONDS * 1000;
const LOOK_MS = 20;

export function vaultRows(work: VaultWork): Row[] {
  return [
    { id: 'kv', always: true, measure: async (environment) => await fromEntries(work, environment) },
    { id: 'kv-quiet', measure: async (environment) => await quiet(work, environment) },
    { id: 'to-vault', measure: async (environment) => await toVault(work, environment) },
  ];
}

async function fromEntries(work: VaultWork, environment: Environment): Promise<Figure[]> {
  const { tracker, options, plane } = environment;
  const { log } = work;
  const bare = await environment.bare.run(bareCreate());
  await environment.bare.run(bareRemove());
  await work.createSources(plane.api, '1');
  log.reset();
  const latencies = await tracker.expect(mirroredKeys(), '1', options.timeoutMs, () => environment.start());
  await environment.settled();
  const { meter } = environment.subject;
  const peak = meter.peak();
  return [
    {
      id: 'kv.time',
      title: '50 entries, 200 mirrors → 4,000 copies from nothing, start included',
      value: seconds(latencies.last),
      unit: 's',
      note: `the bare client creates 1,000 Secrets in ${seconds(bare.ms).toFixed(2)} s in this run; ${describe(environment.requests.counts())}`,
    },
    { id: 'kv.cpu', title: '… CPU', value: meter.cpuSeconds(), unit: 's' },
    { id: 'kv.logins', title: '… logins', value: log.logins, unit: '', note: log.describe() },
    {
      id: 'kv.reads',
      title: '… reads per SecretMirror and poll, at most',
      value: mostOfOnePath(log.reads, SHORTEST_POLL_MS) / MIRRORS_OF_AN_ENTRY,
      unit: '',
    },
    { id: 'kv.rss', title: '… peak RSS', value: peak.rssMiB, unit: 'MiB' },
    { id: 'kv.private', title: '… peak private memory', value: peak.privateMiB, unit: 'MiB' },
  ];
}

async function quiet(work: VaultWork, environment: Environment): Promise<Figure[]> {
  await environment.settled();
  const { log } = work;
  log.reset();
  environment.requests.reset();
  const cpuBefore = environment.subject.meter.cpuSeconds();
  await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
  const counts = environment.requests.counts();
  return [
    {
      id: 'kv-quiet.reads',
      title: `quiet ${QUIET_MS / 1000} s, polls every ${POLL_SECONDS} s: reads per SecretMirror and poll, at most`,
      value: mostOfOnePath(log.reads, SHORTEST_POLL_MS) / MIRRORS_OF_AN_ENTRY,
      unit: '',
      note: log.describe(),
    },
    { id: 'kv-quiet.vault-writes', title: '… writes to Vault', value: log.writes.length, unit: '' },
    {
      id: 'kv-quiet.writes',
      title: '… writes to the cluster',
      value: writesIn(counts),
      unit: '',
      note: describe(counts),
    },
    { id: 'kv-quiet.cpu', title: '… CPU', value: environment.subject.meter.cpuSeconds() - cpuBefore, unit: 's' },
  ];
}

async function toVault(work: VaultWork, environment: Environment): Promise<Figure[]> {
  const { log } = work;
  const { tracker, options, plane } = environment;
  await tracker.expect(mirroredKeys(), undefined, options.timeoutMs, () => work.removeOwners(plane.api));
  await environment.settled();
  await environment.stop();
  await work.createOut(plane.api, '1');
  log.reset();
  const since = Date.now();
  await environment.start();
  const last = await lastWritten(work, environment, since);
  await environment.settled();
  const { meter } = environment.subject;
  const peak = meter.peak();
  const { logins } = log;
  const note = log.describe();
  const { highest, right } = await work.outState('1');
  if (right !== outNames().length) throw new Error(`${right} of the entries in Vault are as their Secrets`);
  return [
    {
      id: 'to-vault.time',
      title: '500 Secrets → Vault, start included',
      value: seconds(last),
      unit: 's',
      note: describe(environment.requests.counts()),
    },
    { id: 'to-vault.cpu', title: '… CPU', value: meter.cpuSeconds(), unit: 's' },
    { id: 'to-vault.logins', title: '… logins', value: logins, unit: '', note },
    { id: 'to-vault.versions', title: '… versions of an entry, at most', value: highest, unit: '' },
    { id: 'to-vault.rss', title: '… peak RSS', value: peak.rssMiB, unit: 'MiB' },
    { id: 'to-vault.private', title: '… peak private memory', value: peak.privateMiB, unit: 'MiB' },
  ];
}

/** How long it took from `since` (wall clock) until each of the 500 entries was written, ms. @throws OverdueError */
async function lastWritten({ log }: VaultWork, environment: Environment, since: number): Promise<number> {
  const wanted = outNames().length;
  for (;;) {
    const first = new Map<string, number>();
    for (const { path, at } of log.writes) if (!first.has(path)) first.set(path, at);
    if (first.size === wanted) return Math.max(...first.values()) - since;
    if (Date.now() - since > environment.options.timeoutMs) {
      throw new OverdueError(`${wanted - first.size} of ${wanted} entries were not written`);
    }
    // `subject` throws an error with the reason, if the program has exited.
    void environment.subject;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
