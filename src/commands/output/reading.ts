/** Shared by all commands that read a cluster: context, snapshot, and notes on objects that they could not list. */
import { KINDS, listerOf } from '../../controllers/common/snapshot/inventory.ts';
import type { RuleCollection } from '../../controllers/common/snapshot/reader.ts';
import { Snapshot, type SnapshotOptions } from '../../controllers/common/snapshot/snapshot.ts';
import { controllerReaders } from '../../controllers/list.ts';
import { CONFIG_MAP, SECRET } from '../../copy/model/kind.ts';
import { parseRuleKey, type RuleKey } from '../../copy/model/keys.ts';
import type { KubeApi } from '../../kube/api.ts';
import { type Paint, type Progress, withProgress } from './terminal.ts';

export interface CommandContext {
  readonly api: KubeApi;
  /** Host of the API server. */
  readonly cluster: string;
  /** The namespace in the kubeconfig's context. Manifests that name no namespace are for this one. */
  readonly namespace: string;
  readonly paint: Paint;
  readonly progress: Progress;
  /** Wall clock, ms. */
  readonly now: () => number;
  readonly signal: AbortSignal;
  readonly stdin: () => Promise<string>;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
}

/** Text for standard output, and the exit code. */
export interface CommandResult {
  readonly text: string;
  readonly code: number;
}

/** The collections of objects that are rules by their kind: SecretMirror, SyncSecret, ExternalSecret. */
export async function ruleCollections(): Promise<RuleCollection[]> {
  return (await controllerReaders()).flatMap(({ collection }) => collection ?? []);
}

/** Reads the cluster and evaluates all rules. @throws the errors of `api.request`, but not for a missing permission */
export async function readSnapshot(
  { api, progress, now, signal }: Pick<CommandContext, 'api' | 'progress' | 'now' | 'signal'>,
  options: Omit<SnapshotOptions, 'api' | 'controllers' | 'now' | 'signal'>,
): Promise<Snapshot> {
  const lister = withProgress(options.lister ?? listerOf(api), progress);
  const controllers = await controllerReaders(options.config.controllers);
  return await Snapshot.at({ ...options, api, lister, controllers, now: now(), signal });
}

/** The settings that say what is read. The reports show what that is. */
export const WHERE = /^--(?:controllers|namespaces)=/;

/** Notes that name the limits which the command assumes, and the objects which the caller could not list. */
export function coverageNotes({ assumed, inventory: { coverage, served }, readers }: Snapshot): string[] {
  const notes = served ? [`Only the namespaces ${served.which} are included: ${served.names.join(', ')}`] : [];
  const limits = assumed.filter((setting) => !WHERE.test(setting));
  if (limits.length > 0) notes.push(`Settings that this command assumes for Keyferry: ${limits.join(' ')}`);
  const partly: string[] = [];
  // Only the replicator copies annotated ConfigMaps. If it is off, no note says that ConfigMaps could not be listed.
  const hasAnnotated = [...readers.values()].some(({ collection }) => collection === undefined);
  for (const [kind, found] of coverage) {
    const plural = kind === 'Namespace' ? 'namespaces' : `${kind}s`;
    if (found.extent === 'namespace') partly.push(plural);
    const { without = [] } = found;
    if (without.length > 0)
      notes.push(`${plural} in ${without.join(', ')} are not included: no permission to list them`);
    if (found.extent === 'refused' && kind !== 'Namespace' && (kind !== CONFIG_MAP.kind || hasAnnotated)) {
      const lost = kind === SECRET.kind ? ', so neither copies nor problems of single copies are shown' : '';
      notes.push(`${plural} are not included${lost}: ${found.message}`);
    }
  }
  if (partly.length > 0) {
    notes.push(`${partly.join(', ')} in other namespaces are not included: no permission to list them`);
  }
  return notes;
}

/** Why Keyferry does not serve a namespace; `undefined`: it may serve it. */
export function whyUnserved({ inventory }: Snapshot, namespace: string): string | undefined {
  return inventory.isUnserved(namespace)
    ? `namespace ${namespace} is not one of those ${inventory.served?.which}`
    : undefined;
}

/** Why it is unknown whether a rule exists; `undefined`: it is known. */
export function whyUnread(snapshot: Snapshot, rule: RuleKey): string | undefined {
  const { controller, kind, namespace } = parseRuleKey(rule);
  const listed = snapshot.readers.get(controller)?.collection?.kind ?? kind;
  if (snapshot.inventory.isListed(listed, namespace)) return undefined;
  return whyUnserved(snapshot, namespace) ?? 'you may not read it';
}

/** Whether a namespace does not exist or is being deleted; `false` also if not all namespaces could be listed. */
export function lacksNamespace({ inventory }: Snapshot, namespace: string): boolean {
  return inventory.knowsNamespaces && !inventory.namespaces.has(namespace);
}

/**
 * Requires that something can be reported: Secrets could be listed, or a kind of rules, which have a status.
 * @throws Error: neither could be listed
 */
export function requireSomeCoverage({ inventory: { coverage } }: Snapshot, hint = ''): void {
  const plain = new Set(['Namespace', ...KINDS.map(({ kind }) => kind)]);
  const isKnown = [...coverage].some(([kind, { extent }]) => {
    return !plain.has(kind) && (extent === 'cluster' || extent === 'namespace');
  });
  const secrets = coverage.get(SECRET.kind);
  if (!isKnown && secrets?.extent === 'refused') throw new Error(`${secrets.message}${hint}`);
}

/**
 * @param hint advice at the end of the error's message
 * @param needed kinds that may usually be missing, but not for this command: ConfigMaps, and kinds of rules
 * @throws Error: the caller has no permission to list a needed kind, even in one namespace
 */
export function requireCoverage({ inventory, readers }: Snapshot, hint: string, needed: ReadonlySet<string>): void {
  const isOptional = new Set([CONFIG_MAP.kind]);
  for (const { collection } of readers.values()) if (collection?.isOptional === true) isOptional.add(collection.kind);
  for (const [kind, found] of inventory.coverage) {
    const isNeeded = needed.has(kind) || !isOptional.has(kind);
    if (found.extent === 'refused' && isNeeded) throw new Error(`${found.message}${hint}`);
  }
}
