/** Makes the writes of `keyferry migrate --apply`. Before that, it refuses to write while a program still runs. */
import { type Changes, KINDS, listerOf } from '../snapshot/inventory.ts';
import { placeOf } from '../snapshot/places.ts';
import { parseResourceKey, type ResourceKey, resourceKey } from '../../copy/model/keys.ts';
import { objectPath } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import { type KubeApi, type KubeObject, METADATA_ONLY } from '../../kube/api.ts';
import type { Listed } from '../../kube/list-each.ts';
import { nextVersion } from '../plan/dry-run.ts';
import { errorText } from '../../observe/error-fields.ts';
import type { Change, ProgramReader, Step } from './program.ts';
import type { CommandContext } from '../output/reading.ts';
import type { MigrationFinding } from './report.ts';

/** Differs from the operator's field manager: the operator removes annotations that its own manager wrote. */
const FIELD_MANAGER = 'keyferry-migrate';

/** The changed objects as they would be after the writes, for a snapshot that assumes them. */
export function assumed(changes: readonly Change[]): Changes {
  return new Map(changes.map(({ object, annotations }) => [object, (there) => there && annotated(there, annotations)]));
}

function annotated(there: Listed, added: Readonly<Record<string, string>>): Listed {
  const { annotations = {}, resourceVersion } = there.metadata;
  const metadata = {
    ...there.metadata,
    annotations: { ...annotations, ...added },
    resourceVersion: nextVersion(resourceVersion),
  };
  return { ...there, metadata };
}

export class Writer {
  readonly #context: Pick<CommandContext, 'api' | 'progress' | 'signal'>;
  readonly #isOn: boolean;

  /** @param isOn whether the user gave `--apply`. If not, nothing is written, and the results are `null` */
  constructor(context: Pick<CommandContext, 'api' | 'progress' | 'signal'>, isOn: boolean) {
    this.#context = context;
    this.#isOn = isOn;
  }

  /** Makes the writes one after the other. After a failed write, the rest are skipped. */
  async steps(steps: readonly Step[]): Promise<MigrationFinding[]> {
    const { api, signal } = this.#context;
    const findings: MigrationFinding[] = [];
    let isStopped = false;
    for (const { object, text, write } of steps) {
      const result: Result = isStopped
        ? skipped('the previous step failed')
        : await this.#write(() => write(api, signal));
      isStopped ||= result.result === 'failed';
      findings.push({ verdict: 'change', object, text, annotations: null, ...result });
    }
    return findings;
  }

  /**
   * Writes sources before their copies, because Keyferry deletes a marked copy whose source does not request it.
   * @param different copies that would lose their data, with the reason. They are not written
   * @param objects the objects as they were listed
   */
  async changes(
    changes: readonly Change[],
    different: ReadonlyMap<ResourceKey, string>,
    objects: ReadonlyMap<ResourceKey, Observed>,
  ): Promise<MigrationFinding[]> {
    const { api, progress, signal } = this.#context;
    const findings: MigrationFinding[] = [];
    const failed = new Set<ResourceKey>();
    for (const change of changes.toSorted((a, b) => Number(a.source !== undefined) - Number(b.source !== undefined))) {
      const { object: key, annotations, text, source } = change;
      if (this.#isOn) progress.show(() => `writing: ${findings.length} of ${changes.length} changes`);
      const object = placeOf(key);
      const pairs = pairsOf(annotations);
      const why = source === undefined ? undefined : different.get(key);
      if (why !== undefined) {
        const own = `${text}, but the copy would not keep its data (${why}); if its data may be replaced, add ${pairs}`;
        findings.push({ verdict: 'manual', object, text: own, annotations: null, result: null, error: null });
        continue;
      }
      const result: Result =
        source !== undefined && failed.has(source)
          ? skipped('its source could not be changed')
          : await this.#write(async () => await annotate(api, change, objects.get(key), signal));
      if (result.result === 'failed') failed.add(key);
      findings.push({ verdict: 'change', object, text: `${text}: adds ${pairs}`, annotations, ...result });
    }
    return findings;
  }

  /**
   * Deletes a copy, if it has not changed since it was listed.
   * @param isStill whether the copy is a leftover in the new lists, too
   * @param objects the objects as they were listed before the leftovers were printed
   */
  async deletion(
    finding: MigrationFinding,
    isStill: boolean,
    objects: ReadonlyMap<ResourceKey, Observed>,
  ): Promise<MigrationFinding> {
    const { api, signal } = this.#context;
    const { kind, namespace, name } = finding.object;
    const key = resourceKey(api.cluster, kind, namespace, name);
    const there = objects.get(key);
    if (!isStill || there === undefined) return { ...finding, ...skipped('the copy is no longer a leftover') };
    const preconditions = { uid: there.uid, resourceVersion: there.resourceVersion };
    const body = JSON.stringify({ apiVersion: 'v1', kind: 'DeleteOptions', preconditions });
    const { result, error } = await this.#write(async () => {
      await api.request({ method: 'DELETE', path: pathOf(key), body, accept: METADATA_ONLY, signal });
    });
    return { ...finding, result: result === 'written' ? 'deleted' : result, error };
  }

  async #write(write: () => Promise<void>): Promise<Result> {
    if (!this.#isOn) return { result: null, error: null };
    try {
      await write();
      return { result: 'written', error: null };
    } catch (error) {
      this.#context.signal.throwIfAborted();
      return { result: 'failed', error: errorText(error) };
    }
  }
}

type Result = Pick<MigrationFinding, 'result' | 'error'>;

function skipped(error: string): Result {
  return { result: 'skipped', error };
}

function pairsOf(annotations: Readonly<Record<string, string>>): string {
  return Object.entries(annotations)
    .map(([name, value]) => `${name}="${value}"`)
    .join(' ');
}

/** Adds the annotations, if the object has not changed since it was listed. @throws the errors of `api.request` */
async function annotate(
  api: KubeApi,
  { object, annotations }: Change,
  there: Pick<Observed, 'uid' | 'resourceVersion'> | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  await api.request({
    method: 'PATCH',
    path: pathOf(object),
    query: { fieldManager: FIELD_MANAGER },
    body: JSON.stringify({ metadata: { uid: there?.uid, resourceVersion: there?.resourceVersion, annotations } }),
    contentType: 'application/merge-patch+json',
    accept: METADATA_ONLY,
    signal,
  });
}

function pathOf(object: ResourceKey): string {
  const { kind } = parseResourceKey(object);
  const known = KINDS.find((one) => one.kind === kind);
  if (known === undefined) throw new TypeError(`not a kind that is copied: ${object}`);
  return objectPath(known, object);
}

export interface RunningProgram {
  readonly reader: ProgramReader;
  /** `<namespace>/<name>` of a Deployment that has replicas. */
  readonly deployment: string;
}

interface Deployment extends KubeObject {
  readonly spec?: {
    readonly replicas?: number;
    readonly template?: { readonly spec?: { readonly containers?: readonly { readonly image?: string }[] } };
  };
}

/** Finds the Deployments in which the programs run. @throws MissingRight, and the errors of `api.request` */
export async function runningPrograms(
  api: KubeApi,
  readers: readonly ProgramReader[],
  signal: AbortSignal | undefined,
): Promise<readonly RunningProgram[]> {
  const found: RunningProgram[] = [];
  const collection = { kind: 'Deployment', groupPath: '/apis/apps/v1', plural: 'deployments' };
  const take = (item: KubeObject): void => {
    const { metadata, spec } = item as Deployment;
    const names = spec?.template?.spec?.containers?.map(({ image = '' }) => imageName(image)) ?? [];
    const reader = readers.find(({ image }) => names.some((name) => image.test(name)));
    if (reader === undefined || spec?.replicas === 0) return;
    found.push({ reader, deployment: `${metadata.namespace ?? ''}/${metadata.name}` });
  };
  await listerOf(api)(collection, undefined, take, { signal });
  return found;
}

/**
 * Refuses writes while a program runs, because Keyferry and the program would overwrite each other's marks.
 * @param deletes whether copies would be deleted. If so, no program that may use a copy is allowed to run
 * @throws Error: one of the programs runs
 */
export function refuseWhileRunning(found: readonly RunningProgram[], deletes: boolean): void {
  const first = found.find(({ reader }) => reader.mustBeStopped || deletes);
  if (first === undefined) return;
  const [namespace = '', name = ''] = first.deployment.split('/');
  throw new Error(
    `${first.reader.program} still runs (Deployment ${first.deployment}); stop it first: kubectl scale -n ${namespace} deployment/${name} --replicas=0`,
  );
}

/** The name of an image without registry, tag and digest. */
function imageName(image: string): string {
  const last = image.slice(image.lastIndexOf('/') + 1);
  return last.replace(/[:@].*$/, '');
}
