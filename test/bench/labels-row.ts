/**
 * The row with SecretMirrors that select namespaces by labels. It is measured after the copies of the other rows are
 * deleted.
 */
import type { Json } from '../support/api.ts';
import { waitFor } from '../support/wait-for.ts';
import { bareCreateInto } from './bare-calls.ts';
import type { BareCall } from './bare-client.ts';
import { Latencies } from './copy-tracker.ts';
import type { Environment } from './environment.ts';
import { type Figure, removed, type Row, seconds } from './rows.ts';
import {
  copyKeys,
  labelNamespaces,
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

export const LABELS_ROW: Row = { id: 'labels', onlyIfNamed: true, measure: labels };

const namespacePath = (name: string): string => `/api/v1/namespaces/${name}`;
const labelPatch = (value: string): Json => ({ metadata: { labels: { [KEY]: value } } });

function mirror(name: string): Json {
  const destination = { namespaceSelector: { matchLabels: { [KEY]: 'yes' } } };
  return {
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { name, namespace: HOME },
    spec: { source: { name }, destination },
  };
}

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
  await api.create(namespaceObject(HOME));
  await api.createMany(sourceNames().map((name) => sourceSecret(name, HOME, '1')));
  await api.createMany(sourceNames().map(mirror));
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
