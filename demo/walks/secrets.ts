/** Helpers of the walks for Secrets: API paths, and how to read and change the password in a Secret. */
import type { KubeObject } from '../../src/kube/api.ts';
import type { Stage } from '../walk.ts';

export interface Place {
  readonly namespace: string;
  readonly name: string;
}

export function secretPath({ namespace, name }: Place): string {
  return `/api/v1/namespaces/${namespace}/secrets/${name}`;
}

/** Changes the password in a Secret. @returns when the request was sent (`performance.now()`), and the new version */
export async function patchPassword(
  { cluster, screen }: Stage,
  place: Place,
  value: string,
): Promise<{ readonly startedAt: number; readonly resourceVersion: string }> {
  const patch = { stringData: { password: value } };
  screen.command(`kubectl -n ${place.namespace} patch secret ${place.name} --type merge -p '${JSON.stringify(patch)}'`);
  const startedAt = performance.now();
  const { metadata } = await cluster.mergePatch(secretPath(place), patch);
  screen.output([`secret/${place.name} patched`]);
  return { startedAt, resourceVersion: metadata.resourceVersion };
}

export async function password({ cluster }: Stage, place: Place): Promise<string> {
  const secret: (KubeObject & { data?: { password?: string } }) | undefined = await cluster.find(secretPath(place));
  return Buffer.from(secret?.data?.password ?? '', 'base64').toString();
}

/** Prints the password in a Secret. @returns the password */
export async function showPassword(stage: Stage, place: Place): Promise<string> {
  const { namespace, name } = place;
  stage.screen.command(`kubectl -n ${namespace} get secret ${name} -o jsonpath='{.data.password}' | base64 -d`);
  const value = await password(stage, place);
  stage.screen.output([value]);
  return value;
}
