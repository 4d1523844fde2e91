/** Shared by all commands that read a cluster: context, snapshot, and notes on what they did not read. */
import { listerOf, MissingRight } from '../snapshot/inventory.ts';
import { Snapshot, type SnapshotOptions } from '../snapshot/snapshot.ts';
import { readersOf } from '../readers.ts';
import { CONFIG_MAP } from '../../copy/model/kind.ts';
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
  /** The width of the terminal; `undefined`: the output is for a file or a program. */
  readonly columns?: number | undefined;
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

/**
 * Reads the cluster and evaluates all rules.
 * @param namespace what is read if the caller may not read the whole cluster; `undefined`: nothing
 * @throws MissingRight, and the errors of `api.request`
 */
export async function readSnapshot(
  { api, progress, now, signal }: Pick<CommandContext, 'api' | 'progress' | 'now' | 'signal'>,
  options: Omit<SnapshotOptions, 'api' | 'controllers' | 'now' | 'signal' | 'only'>,
  namespace?: string,
): Promise<Snapshot> {
  const lister = withProgress(options.lister ?? listerOf(api), progress);
  const { config } = options;
  const controllers = readersOf(config.controllers);
  const read = async (only?: string): Promise<Snapshot> =>
    await Snapshot.at({ ...options, api, lister, controllers, now: now(), signal, only });
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof MissingRight) || config.namespaces.length > 0) throw error;
    if (namespace !== undefined) return await read(namespace);
    const hint = 'to read only some namespaces, name them with --namespaces';
    throw new Error(`${error.message}; ${hint}`, { cause: error });
  }
}

/** The settings that a command assumes for the operator, except those that say what is read: the reports show what that is. */
export function settingsOf({ assumed }: Snapshot): string[] {
  return assumed.filter((setting) => !/^--(?:controllers|namespaces)=/.test(setting));
}

/** Notes that name the limits which the command assumes, and what was not read. */
export function coverageNotes(snapshot: Snapshot): string[] {
  const { inventory, readers } = snapshot;
  const { only, served, unread } = inventory;
  const limits = settingsOf(snapshot);
  // Only the replicator copies annotated ConfigMaps. If it is off, no note says that ConfigMaps could not be listed.
  const hasAnnotated = [...readers.values()].some(({ collection }) => collection === undefined);
  const missed = [...unread].filter(([kind]) => kind !== CONFIG_MAP.kind || hasAnnotated);
  return [
    ...(served ? [`Only the namespaces ${served.which} are included: ${served.names.join(', ')}`] : []),
    ...(limits.length === 0 ? [] : [`Settings that this command assumes for Keyferry: ${limits.join(' ')}`]),
    ...(only === undefined ? [] : [`Only namespace ${only} is included: no permission to read the whole cluster`]),
    ...[...readers.values()].flatMap((reader) => reader.unread?.(snapshot) ?? []),
    ...missed.map(([kind, { brief }]) => `${kind}s are not included: ${brief}`).toSorted(),
  ];
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

/** @throws MissingRight: the caller has no permission to list one of these kinds */
export function requireKinds({ inventory: { unread } }: Snapshot, kinds: readonly string[]): void {
  for (const kind of kinds) {
    const why = unread.get(kind);
    if (why !== undefined) throw why;
  }
}
