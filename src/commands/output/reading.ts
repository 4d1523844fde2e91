/** Shared by all commands that read a cluster: context, snapshot, and notes on what they did not read. */
import { MissingRight } from '../snapshot/inventory.ts';
import { Snapshot, type SnapshotOptions } from '../snapshot/snapshot.ts';
import { controllersWithout, readersOf } from '../readers.ts';
import { CONTROLLERS } from '../../config/controller-names.ts';
import type { KubeApi } from '../../kube/api.ts';
import type { Paint } from './terminal.ts';

export interface CommandContext {
  readonly api: KubeApi;
  /** Host of the API server. */
  readonly cluster: string;
  /** The namespace in the kubeconfig's context. Manifests that name no namespace are for this one. */
  readonly namespace: string;
  readonly paint: Paint;
  /** The width of the terminal; `undefined`: the output is for a file or a program. */
  readonly columns?: number | undefined;
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
 * @param namespace the one that is read if the caller may not read the whole cluster, as with `--namespaces`
 * @throws Error, if a right is missing: it names the right, and what needs less. And the errors of `api.request`
 */
export async function readSnapshot(
  context: Pick<CommandContext, 'api' | 'now' | 'signal'>,
  options: Omit<SnapshotOptions, 'api' | 'controllers' | 'now' | 'signal'>,
  namespace?: string,
): Promise<Snapshot> {
  const { api, now, signal } = context;
  const { config } = options;
  try {
    const controllers = readersOf(config.controllers);
    return await Snapshot.at({ ...options, api, controllers, now: now(), signal });
  } catch (error) {
    if (!(error instanceof MissingRight)) throw error;
    const isAll = config.namespaces.length === 0;
    if (isAll && namespace !== undefined) {
      const narrow = { ...config, namespaces: [namespace] };
      return await readSnapshot(context, { ...options, config: narrow, narrowed: error.brief });
    }
    const hints = isAll ? ['to read only some namespaces, name them with --namespaces'] : [];
    // `status --orphans` reads the rules of all controllers, whatever `--controllers` names.
    const isEvery = config.controllers?.length === CONTROLLERS.length;
    const others = isEvery ? [] : controllersWithout([...error.rights.keys()], config.controllers);
    if (others.length > 0) hints.push(`not needed with --controllers=${others.join(',')}`);
    throw new Error([error.message, ...hints].join('; '), { cause: error });
  }
}

/** The settings that a command assumes for the operator, except those that say what is read: the reports show what that is. */
export function settingsOf({ assumed }: Snapshot): string[] {
  return assumed.filter((setting) => !/^--(?:controllers|namespaces)=/.test(setting));
}

/** Notes that name the limits which the command assumes, and what was not read. */
export function coverageNotes(snapshot: Snapshot): string[] {
  const { inventory, narrowed, readers } = snapshot;
  const { served } = inventory;
  const limits = settingsOf(snapshot);
  const why = narrowed === undefined ? '' : ` (${narrowed})`;
  return [
    ...(served ? [`Only the namespaces ${served.which} are included: ${served.names.join(', ')}${why}`] : []),
    ...(limits.length === 0 ? [] : [`Settings that this command assumes for Keyferry: ${limits.join(' ')}`]),
    ...[...readers.values()].flatMap((reader) => reader.unread?.(snapshot) ?? []),
  ];
}

/** Why Keyferry does not serve a namespace; `undefined`: it may serve it. */
export function whyUnserved({ inventory }: Snapshot, namespace: string): string | undefined {
  return inventory.isUnserved(namespace)
    ? `namespace ${namespace} is not one of those ${inventory.served?.which}`
    : undefined;
}

/** Whether a namespace does not exist or is being deleted; `false` also if not all namespaces could be listed. */
export function lacksNamespace({ inventory }: Snapshot, namespace: string): boolean {
  return inventory.isWhole && !inventory.namespaces.has(namespace);
}
