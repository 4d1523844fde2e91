/** The table of the controllers' readers. Only commands load them, which saves the operator memory. */
import { CONTROLLERS } from '../config/controller-names.ts';
import type { ControllerName } from '../config/controllers.ts';
import { CONFIG_MAP, SECRET } from '../copy/model/kind.ts';
import { COPY_LABEL, type Observed } from '../copy/model/observed.ts';
import { ConfigSyncerReader } from './readers/config-syncer.ts';
import { EXTERNAL_SECRETS, GeneratorReader } from './readers/generator.ts';
import { MirrorReader, SECRET_MIRRORS } from './readers/mirrors.ts';
import { MittwaldReader } from './readers/mittwald.ts';
import { ReflectorReader } from './readers/reflector.ts';
import { ReplicatorReader } from './readers/replicator.ts';
import { SYNC_SECRETS, SyncSecretReader } from './readers/syncsecret.ts';
import { type Needs, NEEDS_ALL, type RuleCollection } from './snapshot/inventory.ts';
import type { ReaderEntry } from './snapshot/reader.ts';

/** By their names in reports. Keyferry looks for their marks in this order. Controllers of SyncSecret share one. */
const READERS: Readonly<Record<string, ReaderEntry>> = {
  replicator: {
    ruleNames: 'Secrets or ConfigMaps with replicator annotations',
    collection: undefined,
    original: { program: 'k8s-replicator', image: /^k8s-replicator$/ },
    open: (...context) => new ReplicatorReader(...context),
  },
  mirrors: {
    ruleNames: 'SecretMirrors',
    collection: SECRET_MIRRORS,
    original: { program: 'mirrors', image: /^mirrors$/ },
    // Their operator needs the right on ConfigMaps only if a SecretMirror copies one.
    needs: () => ({ ...NEEDS_ALL, [CONFIG_MAP.kind]: false }),
    open: (...context) => new MirrorReader(...context),
  },
  syncsecret: {
    ruleNames: 'SyncSecrets',
    collection: SYNC_SECRETS,
    original: { program: 'KubeLB', image: /^kubelb(-ccm|-manager)?(-ee)?$/ },
    // The CCM has no right on Secrets, because it copies SyncSecrets into the other cluster.
    needs: (controllers) => {
      const others = controllers?.filter((name) => /^syncsecret-(?!ccm$)/.test(name));
      return others?.length === 0 ? {} : { [SECRET.kind]: true };
    },
    open: (...context) => new SyncSecretReader(...context),
  },
  reflector: {
    ruleNames: 'Secrets or ConfigMaps with annotations of reflector',
    collection: undefined,
    original: {
      program: 'reflector',
      image: /^(kubernetes-reflector|es\.kubernetes\.reflector)$/,
      prefix: 'reflector.v1.k8s.emberstack.com/',
    },
    open: (...context) => new ReflectorReader(...context),
  },
  'config-syncer': {
    ruleNames: 'Secrets or ConfigMaps with annotations of config-syncer',
    collection: undefined,
    original: { program: 'config-syncer', image: /^(kubed|config-syncer)$/, prefix: 'kubed.appscode.com/' },
    open: (...context) => new ConfigSyncerReader(...context),
  },
  mittwald: {
    ruleNames: 'Secrets or ConfigMaps with annotations of kubernetes-replicator',
    collection: undefined,
    original: {
      program: 'kubernetes-replicator',
      image: /^kubernetes-replicator$/,
      prefix: 'replicator.v1.mittwald.de/',
    },
    open: (...context) => new MittwaldReader(...context),
  },
  generator: {
    ruleNames: 'ExternalSecrets with the annotation create',
    collection: EXTERNAL_SECRETS,
    needs: () => ({}),
    open: (inventory) => new GeneratorReader(inventory),
  },
};

/** The readers of these controllers, by their names in reports. Default: all; see `Original.prefix`. */
export function readersOf(controllers?: readonly ControllerName[]): ReadonlyMap<string, ReaderEntry> {
  const systems = new Set<string>(controllers?.map((name) => (name.startsWith('syncsecret-') ? 'syncsecret' : name)));
  return new Map(Object.entries(READERS).filter(([system]) => controllers === undefined || systems.has(system)));
}

/** The kinds that these readers need together. @param controllers those of `--controllers` */
export function needsOf(readers: ReadonlyMap<string, ReaderEntry>, controllers?: readonly ControllerName[]): Needs {
  const needs: Record<string, boolean> = {};
  for (const { needs: of } of readers.values())
    for (const [kind, isNeeded] of Object.entries(of?.(controllers) ?? NEEDS_ALL)) needs[kind] ||= isNeeded;
  return needs;
}

/** Those of these controllers that do not need the right to list these kinds. Default: all; see `Original.prefix`. */
export function controllersWithout(
  kinds: readonly string[],
  controllers?: readonly ControllerName[],
): readonly ControllerName[] {
  return (controllers ?? CONTROLLERS).filter((name) => {
    const [reader] = readersOf([name]).values();
    const isRead = controllers !== undefined || reader?.original?.prefix === undefined;
    const needs = reader?.needs?.([name]) ?? NEEDS_ALL;
    return isRead && kinds.every((kind) => needs[kind] !== true && kind !== reader?.collection?.kind);
  });
}

/** The controllers of the label and annotations on an object that are not among these, by their names in reports. */
export function unreadOn({ annotations, labels }: Observed, systems: ReadonlySet<string>): string[] {
  const names = Object.keys(annotations);
  const unread = Object.entries(READERS).filter(([system]) => !systems.has(system));
  return unread.flatMap(([system, { original: { prefix } = {} }]) => {
    const isNamed = prefix !== undefined && names.some((name) => name.startsWith(prefix));
    return isNamed || labels[COPY_LABEL] === system ? system : [];
  });
}

/** The collections of objects that are rules by their kind: SecretMirror, SyncSecret, ExternalSecret. */
export function ruleCollections(): RuleCollection[] {
  return Object.values(READERS).flatMap(({ collection }) => collection ?? []);
}
