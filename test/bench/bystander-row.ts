/**
 * The row with a team that floods the operator: 5,000 sources, each of which selects every namespace. Others must not
 * notice. Most of these sources are refused, because the targets of one namespace are limited.
 */
import type { Environment } from './environment.ts';
import { type Figure, type Row, seconds } from './rows.ts';
import { copyKeys, type Fleet, namespaceObject, noiseNames } from './workload.ts';

/** How often another team makes a source during the flood. */
const ROUNDS = 5;
const NOISY: Fleet = { sourceNamespace: 'bench-noisy', pattern: '.*', selector: '', names: noiseNames() };

export const BYSTANDER_ROW: Row = { id: 'bystander', onlyIfNamed: true, measure: bystander };

async function bystander(environment: Environment): Promise<Figure[]> {
  const { plane, copier } = environment;
  const { api } = plane;
  const names = ['quiet', ...Array.from({ length: ROUNDS }, (_, round) => `${round}`)];
  await api.createMany(names.flatMap((name) => [`bench-by-${name}`, `bench-reader-${name}`]).map(namespaceObject));
  await api.create(namespaceObject(NOISY.sourceNamespace));
  await environment.settled();
  const quiet = await served(environment, 'quiet');
  const flood = copier.createSources(api, '1', NOISY);
  const during: Served[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    // The last one comes when all sources are there, and their copies are still being made.
    if (round === ROUNDS - 1) await flood;
    during.push(await served(environment, `${round}`));
  }
  const slowest = during.reduce((one, other) => (other.copyMs > one.copyMs ? other : one));
  return [
    {
      id: 'bystander.quiet',
      title: 'a new source is there → its copy is',
      value: seconds(quiet.copyMs),
      unit: 's',
      bare: seconds(quiet.writeMs),
    },
    {
      id: 'bystander.time',
      title: `… while a team makes ${noiseNames().length} sources for every namespace, the slowest of ${ROUNDS}`,
      value: seconds(slowest.copyMs),
      unit: 's',
      bare: seconds(slowest.writeMs),
      note: during.map(({ copyMs, writeMs }) => `${Math.round(copyMs)} (${Math.round(writeMs)}) ms`).join(', '),
    },
    {
      id: 'bystander.private',
      title: '… peak private memory',
      value: environment.subject.meter.peak().privateMiB,
      unit: 'MiB',
    },
  ];
}

interface Served {
  /** From the answer to the creation of the source until the copy is there. */
  readonly copyMs: number;
  /** How long the creation of the source took: one write of another client at the same time. */
  readonly writeMs: number;
}

/** Another team makes a source for one namespace. */
async function served({ plane, copier, tracker, options }: Environment, name: string): Promise<Served> {
  const reader = `bench-reader-${name}`;
  const selector = `kubernetes.io/metadata.name=${reader}`;
  const fleet = { sourceNamespace: `bench-by-${name}`, pattern: reader, selector, names: ['bench-bystander-000'] };
  let writeMs = 0;
  const latencies = await tracker.expect(copyKeys([reader], fleet.names), '1', options.timeoutMs, async () => {
    const from = performance.now();
    await copier.createSources(plane.api, '1', fleet);
    writeMs = performance.now() - from;
  });
  return { copyMs: Math.max(0, latencies.last - writeMs), writeMs };
}
