/** The Deployments in which other programs run. */
import type { ProgramReader } from '../../controllers/common/migration.ts';
import { listerOf } from '../../controllers/common/snapshot/list-permitted.ts';
import type { KubeApi, KubeObject } from '../../kube/api.ts';

export interface RunningPrograms {
  readonly found: readonly {
    readonly reader: ProgramReader;
    /** `<namespace>/<name>` of a Deployment with replicas. */
    readonly deployment: string;
  }[];
  /** Why it is not known: the words of the server. */
  readonly refusal: string | undefined;
}

interface Deployment extends KubeObject {
  readonly spec?: {
    readonly replicas?: number;
    readonly template?: { readonly spec?: { readonly containers?: readonly { readonly image?: string }[] } };
  };
}

/** @throws the errors of `api.request`, except 403 */
export async function runningPrograms(
  api: KubeApi,
  readers: readonly ProgramReader[],
  signal: AbortSignal | undefined,
): Promise<RunningPrograms> {
  const found: RunningPrograms['found'][number][] = [];
  const collection = { kind: 'Deployment', groupPath: '/apis/apps/v1', plural: 'deployments' };
  const take = (item: KubeObject): void => {
    const { metadata, spec } = item as Deployment;
    const names = spec?.template?.spec?.containers?.map(({ image = '' }) => imageName(image)) ?? [];
    const reader = readers.find(({ image }) => names.some((name) => image.test(name)));
    if (reader === undefined || spec?.replicas === 0) return;
    found.push({ reader, deployment: `${metadata.namespace ?? ''}/${metadata.name}` });
  };
  const reach = await listerOf(api)(collection, undefined, take, { signal });
  return { found, refusal: reach.extent === 'refused' ? reach.message : undefined };
}

/**
 * Two programs that write the same copies overwrite each other's marks.
 * @param readers of the programs whose objects are to be changed
 * @param deletes whether copies are to be deleted: no program may use them
 * @throws Error if one of them runs, or if that is not known
 */
export function refuseWhileRunning(
  { found, refusal }: RunningPrograms,
  readers: readonly ProgramReader[],
  deletes: boolean,
): void {
  const unknown = refusal === undefined ? undefined : readers.find(({ mustBeStopped }) => mustBeStopped || deletes);
  if (unknown !== undefined) {
    throw new Error(
      `--apply needs the right to list Deployments, to see that ${unknown.program} does not run: ${refusal}`,
    );
  }
  const first = found.find(({ reader }) => reader.mustBeStopped || deletes);
  if (first === undefined) return;
  const [namespace = '', name = ''] = first.deployment.split('/');
  throw new Error(
    `${first.reader.program} still runs (Deployment ${first.deployment}); stop it first: kubectl scale -n ${namespace} deployment/${name} --replicas=0`,
  );
}

/** Without registry, tag and digest. */
function imageName(image: string): string {
  const last = image.slice(image.lastIndexOf('/') + 1);
  return last.replace(/[:@].*$/, '');
}
