/** How one writes rules in each system, and what its copies look like. Keyferry has one engine for all of them. */
import type { Json } from '../../support/api.ts';
import { originLabels, ORIGIN } from '../config-syncer/support.ts';
import type { Texts } from './support.ts';

const REPLICATOR = 'k8s-replicator';
const REFLECTOR = 'reflector.v1.k8s.emberstack.com';
const MITTWALD = 'replicator.v1.mittwald.de';
const SYNC = 'kubed.appscode.com/sync';
export const CLUSTER = 'unicorn';

/** What a system says on an object that pulls. */
interface Pull {
  readonly ask: (source: string) => Texts;
  readonly permit: Texts;
  /** The opposite of `permit`. */
  readonly forbid: Texts;
  /** What a withdrawn permission leaves, and a source that is gone: all, or not the keys of the source. */
  readonly forbidden: 'kept' | 'emptied';
  readonly gone: 'kept' | 'emptied';
  /** Whether the object keeps its own keys. */
  readonly merges: boolean;
  /** The annotations of a filled object besides those of its user, without the prefix. */
  readonly marks: readonly string[];
  /** Values of the annotation that are no reference to another object. */
  readonly illFormed: readonly string[];
}

export interface System {
  readonly name: string;
  readonly prefix: string;
  /** Who writes its events. */
  readonly component: string;
  /** On a source: copies in these namespaces. */
  readonly push: (...namespaces: readonly string[]) => Texts;
  /** On a source: copies in the namespaces with these labels. */
  readonly byLabels?: (selector: string) => Texts;
  /** On a source: what cannot be read, beside what can: `team-b`, if the system reads a list. */
  readonly bad: Texts;
  /** The labels of a copy of `source/<name>` with the labels `app` and `argocd.argoproj.io/tracking-id`. */
  readonly labels: (name: string) => Texts;
  /** The names of the annotations of a copy whose source has `my.org/note`, too. */
  readonly annotations: readonly string[];
  /** The version of the source in the annotations of a copy or of a filled object. */
  readonly version: (object: Json) => string | undefined;
  /** The annotations, and for some systems labels, of a copy that the original made of this source. */
  readonly original: (source: Json) => { readonly annotations: Texts; readonly labels?: Texts };
  readonly pull?: Pull;
}

const PLACE = 'keyferry.dev/target';
const prefixed = (prefix: string, names: readonly string[]): string[] => names.map((name) => `${prefix}/${name}`);
const pathOf = ({ metadata }: Json): string => `${metadata.namespace}/${metadata.name}`;
const versionIn =
  (name: string): System['version'] =>
  ({ metadata }) =>
    metadata.annotations?.[name];
const AT = '2026-01-01T00:00:00Z';

const replicator: System = {
  name: 'replicator',
  prefix: REPLICATOR,
  component: 'k8s-replicator',
  push: (...namespaces) => ({ [`${REPLICATOR}/replicate-to-namespaces`]: namespaces.join() }),
  bad: { [`${REPLICATOR}/replicate-to-namespaces`]: 'team-b,team-a(' },
  labels: () => ({ 'app.kubernetes.io/managed-by': 'k8s-replicator', 'keyferry.dev/copy': 'replicator' }),
  annotations: [PLACE, ...prefixed(REPLICATOR, ['replicated-at', 'replicated-by', 'replicated-from-version'])],
  version: versionIn(`${REPLICATOR}/replicated-from-version`),
  original: (source) => ({
    annotations: {
      [`${REPLICATOR}/replicated-by`]: pathOf(source),
      [`${REPLICATOR}/replicated-at`]: AT,
      [`${REPLICATOR}/replicated-from-version`]: source.metadata.resourceVersion,
    },
  }),
  pull: {
    ask: (source) => ({ [`${REPLICATOR}/replicate-from`]: source }),
    permit: { [`${REPLICATOR}/replication-allowed`]: 'true' },
    forbid: { [`${REPLICATOR}/replication-allowed`]: 'false' },
    forbidden: 'emptied',
    gone: 'emptied',
    merges: false,
    marks: ['replicated-at', 'replicated-from-allowed', 'replicated-from-origin', 'replicated-from-version'],
    illFormed: ['a/b/c', '/a', '../x'],
  },
};

const reflector: System = {
  name: 'reflector',
  prefix: REFLECTOR,
  component: 'reflector',
  push: (...namespaces) => ({
    [`${REFLECTOR}/reflection-allowed`]: 'true',
    [`${REFLECTOR}/reflection-auto-enabled`]: 'true',
    [`${REFLECTOR}/reflection-auto-namespaces`]: namespaces.join(),
  }),
  byLabels: (selector) => ({
    [`${REFLECTOR}/reflection-allowed`]: 'true',
    [`${REFLECTOR}/reflection-auto-enabled`]: 'true',
    [`${REFLECTOR}/reflection-auto-namespaces-selector`]: selector,
  }),
  bad: { [`${REFLECTOR}/reflection-auto-namespaces`]: 'team-b,team-a(' },
  labels: () => ({ 'keyferry.dev/copy': 'reflector' }),
  annotations: [PLACE, ...prefixed(REFLECTOR, ['auto-reflects', 'reflected-at', 'reflected-version', 'reflects'])],
  version: versionIn(`${REFLECTOR}/reflected-version`),
  original: (source) => ({
    annotations: {
      [`${REFLECTOR}/reflects`]: pathOf(source),
      [`${REFLECTOR}/auto-reflects`]: 'True',
      [`${REFLECTOR}/reflected-version`]: source.metadata.resourceVersion,
      [`${REFLECTOR}/reflected-at`]: '"2024-01-01T00:00:00.0000000+00:00"',
    },
  }),
  pull: {
    ask: (source) => ({ [`${REFLECTOR}/reflects`]: source }),
    permit: { [`${REFLECTOR}/reflection-allowed`]: 'true' },
    forbid: { [`${REFLECTOR}/reflection-allowed`]: 'false' },
    forbidden: 'kept',
    gone: 'kept',
    merges: false,
    marks: ['auto-reflects', 'reflected-at', 'reflected-version'],
    illFormed: ['source/plain/x', '/plain', 'source/', 'plain'],
  },
};

const mittwald: System = {
  name: 'mittwald',
  prefix: MITTWALD,
  component: 'kubernetes-replicator',
  push: (...namespaces) => ({ [`${MITTWALD}/replicate-to`]: namespaces.join() }),
  byLabels: (selector) => ({ [`${MITTWALD}/replicate-to-matching`]: selector }),
  bad: { [`${MITTWALD}/replicate-to`]: 'team-b,team-a(' },
  labels: () => ({ app: 'x', 'keyferry.dev/copy': 'mittwald' }),
  annotations: [
    'keyferry.dev/replicated-from',
    PLACE,
    ...prefixed(MITTWALD, ['replicated-at', 'replicated-from-version', 'replicated-keys']),
  ],
  version: versionIn(`${MITTWALD}/replicated-from-version`),
  original: ({ metadata, data = {}, binaryData = {} }) => ({
    annotations: {
      [`${MITTWALD}/replicated-at`]: AT,
      [`${MITTWALD}/replicated-from-version`]: metadata.resourceVersion,
      [`${MITTWALD}/replicated-keys`]: [...Object.keys(data), ...Object.keys(binaryData)].toSorted().join(),
    },
    labels: metadata.labels,
  }),
  pull: {
    ask: (source) => ({ [`${MITTWALD}/replicate-from`]: source }),
    permit: { [`${MITTWALD}/replication-allowed`]: 'true', [`${MITTWALD}/replication-allowed-namespaces`]: '.*' },
    forbid: { [`${MITTWALD}/replication-allowed`]: 'false' },
    forbidden: 'kept',
    gone: 'emptied',
    merges: true,
    marks: ['replicated-at', 'replicated-from-version', 'replicated-keys'],
    illFormed: ['source', 'source/a/b', ' source/a'],
  },
};

const configSyncer: System = {
  name: 'config-syncer',
  prefix: 'kubed.appscode.com',
  component: 'config-syncer',
  push: (...namespaces) => ({ [SYNC]: `kubernetes.io/metadata.name in (${namespaces.join()})` }),
  byLabels: (selector) => ({ [SYNC]: selector }),
  bad: { [SYNC]: 'a=(' },
  labels: (name) => ({ app: 'x', ...originLabels('source', name, CLUSTER), 'keyferry.dev/copy': 'config-syncer' }),
  annotations: ['keyferry.dev/synced-from', PLACE, ORIGIN, 'my.org/note'],
  version: ({ metadata }) => JSON.parse(metadata.annotations?.[ORIGIN] ?? '{}').resourceVersion,
  original: ({ metadata: { namespace, name, uid, resourceVersion, labels, annotations } }) => ({
    labels: { ...labels, ...originLabels(namespace, name, CLUSTER) },
    annotations: {
      ...Object.fromEntries(Object.entries<string>(annotations ?? {}).filter(([key]) => key !== SYNC)),
      [ORIGIN]: JSON.stringify({ namespace, name, uid, resourceVersion }),
    },
  }),
};

export const SYSTEMS: readonly System[] = [reflector, mittwald, configSyncer, replicator];
/** The systems in which an object may pull. */
export const PULLING: readonly (System & { readonly pull: Pull })[] = SYSTEMS.filter(
  (system): system is System & { readonly pull: Pull } => system.pull !== undefined,
);

/** A patch that takes these annotations away. */
export function without(annotations: Texts): Record<string, null> {
  return Object.fromEntries(Object.keys(annotations).map((name) => [name, null]));
}
