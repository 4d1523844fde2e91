/** The Deployments in which one of the other programs runs. */
import { listerOf } from '../../controllers/common/snapshot/list-permitted.ts';
import type { KubeApi, KubeObject } from '../../kube/api.ts';
import type { System } from './model.ts';

/** Parts of image names, by program. */
const IMAGES: Readonly<Record<System, RegExp>> = {
  mirrors: /(^|\/)ktshub\/mirrors([:@]|$)/,
  'k8s-replicator': /(^|\/)k8s-replicator([:@]|$)/,
  kubelb: /(^|\/)kubelb(-ccm|-manager)?(-ee)?([:@]|$)/,
  reflector: /(^|\/)(kubernetes-reflector|es\.kubernetes\.reflector)([:@]|$)/,
  'kubernetes-replicator': /(^|\/)kubernetes-replicator([:@]|$)/,
  'config-syncer': /(^|\/)(kubed|config-syncer)([:@]|$)/,
};

export interface RunningProgram {
  readonly system: System;
  /** `<namespace>/<name>` of the Deployment. */
  readonly deployment: string;
  readonly replicas: number;
}

interface Deployment extends KubeObject {
  readonly spec?: {
    readonly replicas?: number;
    readonly template?: { readonly spec?: { readonly containers?: readonly { readonly image?: string }[] } };
  };
}

/**
 * @returns a text if the caller may not list Deployments
 * @throws the errors of `api.request`, except 403
 */
export async function runningPrograms(
  api: KubeApi,
  signal: AbortSignal | undefined,
): Promise<readonly RunningProgram[] | string> {
  const found: RunningProgram[] = [];
  const collection = { kind: 'Deployment', groupPath: '/apis/apps/v1', plural: 'deployments' };
  const reach = await listerOf(api)(
    collection,
    undefined,
    (item) => {
      const { metadata, spec } = item as Deployment;
      const replicas = spec?.replicas ?? 1;
      const system = systemOf(spec?.template?.spec?.containers?.map(({ image = '' }) => image) ?? []);
      if (system === undefined || replicas === 0) return;
      found.push({ system, deployment: `${metadata.namespace ?? ''}/${metadata.name}`, replicas });
    },
    { signal },
  );
  return reach.extent === 'refused' ? reach.message : found;
}

/** The program of a Pod, by the images of its containers. */
export function systemOf(images: readonly string[]): System | undefined {
  for (const [system, name] of Object.entries(IMAGES) as [System, RegExp][]) {
    if (images.some((image) => name.test(image))) return system;
  }
  return undefined;
}
