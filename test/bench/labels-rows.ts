/**
 * Rows for SecretMirrors that select namespaces by labels. They are measured after the copies of the other rows are
 * deleted.
 */
import type { Json } from '../support/api.ts';
import { waitFor } from '../support/wait-for.ts';
import { bareCreateInto } from './bare-calls.ts';
import type { BareCall } from './bare-client.ts';
import { Latencies } from './copy-tracker.ts';
import type { Environment } from './environment.ts';
import { callsIn } from './request-log.ts';
import { type Figure, removed, type Row, seconds } from './rows.ts';
import {
  copyKeys,
  labelNamespaces,
  manyNamespaces,
  namespaceObject,
  sourceNames,
  sourceSecret,
  wideBareNames,
  wideBareNamespaces,
} from './workload.ts';

const MIRRORS = '/apis/mirrors.kts.studio/v1alpha2/secretmirrors';
const HOME = 'bench-sources-labels';
const KEY = 'bench';
/** How many namespaces get the label one after the other. */
const SINGLE = 5;
/** How many mirrors select nothing: each selects by another label, which no namespace has. */
const IDLE = 480;
const BYSTANDER = 'bench-bystander';
/**
 * How many connections send the labels of 10,000 namespaces. The client has 16, so one connection is free to measure a
 * mirror that must not wait for the namespaces.
 */
const LABELLERS = 15;

export const LABELS_ROW: Row = { id: 'labels', onlyIfNamed: true, measure: labels };
export const MANY_LABELS_ROW: Row = { id: 'labels-many', onlyIfNamed: true, measure: manyLabels };

const namespacePath = (name: string): string => `/api/v1/namespaces/${name}`;
const labelPatch = (value: string): Json => ({ metadata: { labels: { [KEY]: value } } });

function mirror(name: string, destination: Json, source = name): Json {
  const metadata = { name, namespace: HOME };
  const spec = { source: { name: source }, destination };
  return { apiVersion: 'mirrors.kts.studio/v1alpha2', kind: 'SecretMirror', metadata, spec };
}

const selecting = (key: string): Json => ({ namespaceSelector: { matchLabels: { [key]: 'yes' } } });

/**
 * Creates namespaces, sources, and a mirror for each source. The mirrors select by the label `KEY`, which no namespace
 * has yet.
 */
async function prepare(
  environment: Environment,
  before: readonly Figure[],
  namespaces: readonly string[],
): Promise<void> {
  const { api } = environment.plane;
  if (!before.some(({ id }) => id === 'removed.time')) await removed(environment);
  await environment.stop();
  await api.createMany(namespaces.map(namespaceObject), 32);
  if ((await api.find(namespacePath(HOME))) !== undefined) return;
  await api.create(namespaceObject(HOME));
  await api.createMany(sourceNames().map((name) => sourceSecret(name, HOME, '1')));
  await api.createMany(sourceNames().map((name) => mirror(name, selecting(KEY))));
}

/** Starts the program. Waits until the status of each mirror shows that the program has evaluated the mirror. */
async function started(environment: Environment): Promise<void> {
  const { options, plane } = environment;
  const { timeoutMs } = options;
  const subject = await environment.start();
  await subject.ready(timeoutMs);
  const isReady = ({ status }: Json): boolean =>
    status?.conditions?.some((one: Json) => one['type'] === 'Ready' && one['status'] === 'True') === true;
  await waitFor(async () => (await plane.api.list(MIRRORS)).every(isReady), {
    timeoutMs,
    message: 'all mirrors are ready',
  });
  await environment.settled();
}

async function labels(environment: Environment, before: readonly Figure[]): Promise<Figure[]> {
  const { tracker, options, plane, bare } = environment;
  const namespaces = labelNamespaces();
  await prepare(environment, before, [...namespaces, ...wideBareNamespaces().map(bareName)]);
  const bareOne = await bare.run(bareCreateInto([bareName(wideBareNamespaces()[0] ?? '')], sourceNames()));
  const creates = bareCreateInto(wideBareNamespaces().map(bareName), wideBareNames().map(bareName));
  // The calls of Keyferry and of the client that labels, in one list for the bare client.
  const patches = namespaces.map((name): BareCall => {
    return { method: 'PATCH', path: namespacePath(name), body: JSON.stringify(labelPatch('no')) };
  });
  const bareAll = await bare.run(mixed(patches, creates));
  await started(environment);
  const label = async (name: string): Promise<unknown> => await plane.api.patch(namespacePath(name), labelPatch('yes'));
  const lasts: number[] = [];
  for (const name of namespaces.slice(0, SINGLE)) {
    const latencies = await tracker.expect(copyKeys([name]), '1', options.timeoutMs, () => label(name));
    lasts.push(latencies.last);
    await environment.settled();
  }
  const rest = namespaces.slice(SINGLE);
  const cpuBefore = environment.subject.meter.cpuSeconds();
  const latencies = await tracker.expect(copyKeys(rest), '1', options.timeoutMs, () => Promise.all(rest.map(label)));
  await environment.settled();
  const cpuSeconds = environment.subject.meter.cpuSeconds() - cpuBefore;
  const one = new Latencies(lasts);
  return [
    {
      id: 'labels.one',
      title: 'a label on one namespace → its 20 copies',
      value: seconds(one.quantile(0.5)),
      unit: 's',
      bare: seconds(bareOne.ms),
      note: `slowest of ${SINGLE}: ${Math.round(one.last)} ms`,
    },
    {
      id: 'labels.time',
      title: 'labels on 1,000 namespaces → 20,000 copies',
      value: seconds(latencies.last),
      unit: 's',
      bare: seconds(bareAll.ms),
    },
    { id: 'labels.cpu', title: '… CPU', value: cpuSeconds, unit: 's', bare: bareAll.cpuSeconds },
  ];
}

const bareName = (name: string): string => `${name}-labels`;

/** Joins two lists of calls. The calls of the shorter list are spread evenly over the longer one. */
function mixed(few: readonly BareCall[], many: readonly BareCall[]): BareCall[] {
  const each = Math.ceil(many.length / few.length);
  return few.flatMap((call, index) => [call, ...many.slice(index * each, (index + 1) * each)]);
}

/**
 * Measures what happens when 10,000 namespaces get a label at the same time. 20 mirrors select by the label's key, but
 * none by its value; 480 mirrors select by other keys. So no copy is made.
 */
async function manyLabels(environment: Environment, before: readonly Figure[]): Promise<Figure[]> {
  const { tracker, options, plane } = environment;
  const { api } = plane;
  const namespaces = manyNamespaces();
  await prepare(environment, before, [...namespaces, BYSTANDER]);
  await api.create(sourceSecret(BYSTANDER, HOME, '1'));
  const idle = Array.from({ length: IDLE }, (_, index) => `idle-${index}`);
  await api.createMany(idle.map((name) => mirror(name, selecting(name), BYSTANDER)));
  await started(environment);
  environment.requests.reset();
  const cpuBefore = environment.subject.meter.cpuSeconds();
  const from = performance.now();
  const waiting = namespaces.values();
  const labelSome = async (): Promise<void> => {
    for (const name of waiting) await api.patch(namespacePath(name), labelPatch('no'));
  };
  const labelled = Promise.all(Array.from({ length: LABELLERS }, labelSome));
  const latencies = await tracker.expect(copyKeys([BYSTANDER], [BYSTANDER]), '1', options.timeoutMs, async () => {
    await api.create(mirror(BYSTANDER, { namespaces: [BYSTANDER] }));
  });
  await labelled;
  const labelledMs = performance.now() - from;
  await environment.settled();
  return [
    {
      id: 'labels-many.requests',
      title: '10,000 namespaces change a label, 500 mirrors select: requests',
      value: callsIn(environment.requests.counts()),
      unit: '',
      note: `labelled in ${seconds(labelledMs).toFixed(1)} s`,
    },
    {
      id: 'labels-many.cpu',
      title: '… CPU',
      value: environment.subject.meter.cpuSeconds() - cpuBefore,
      unit: 's',
    },
    {
      id: 'labels-many.bystander',
      title: '… another mirror, made meanwhile → its copy',
      value: seconds(latencies.last),
      unit: 's',
    },
    {
      id: 'labels-many.private',
      title: '… peak private memory',
      value: environment.subject.meter.peak().privateMiB,
      unit: 'MiB',
    },
  ];
}
