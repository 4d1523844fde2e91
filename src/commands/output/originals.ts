/** What the commands say of the programs that Keyferry replaces: which still run, and whose annotations have no effect. */
import type { ControllerName } from '../../config/controllers.ts';
import type { KubeObject } from '../../kube/api.ts';
import { readersOf } from '../readers.ts';
import { listerOf, MissingRight } from '../snapshot/inventory.ts';
import type { CommandContext } from './reading.ts';

interface Deployment extends KubeObject {
  readonly spec?: {
    readonly replicas?: number;
    readonly template?: { readonly spec?: { readonly containers?: readonly { readonly image?: string }[] } };
  };
}

const DEPLOYMENTS = { kind: 'Deployment', groupPath: '/apis/apps/v1', plural: 'deployments' };

/**
 * A line for each Deployment with replicas in which the original of one of these controllers runs. None if the caller may
 * not list Deployments.
 * @param controllers those that `--controllers` names; `undefined`: it names none, so nothing is read
 * @throws the errors of `api.request`
 */
export async function runningOriginals(
  { api, signal }: Pick<CommandContext, 'api' | 'signal'>,
  controllers: readonly ControllerName[] | undefined,
): Promise<readonly string[]> {
  if (controllers === undefined) return [];
  const originals = [...readersOf(controllers).values()].flatMap(({ original }) => original ?? []);
  const lines: string[] = [];
  const take = (item: KubeObject): void => {
    const { metadata, spec } = item as Deployment;
    const images = spec?.template?.spec?.containers?.map(({ image = '' }) => imageName(image)) ?? [];
    const original = originals.find((one) => images.some((image) => one.image.test(image)));
    if (original === undefined || spec?.replicas === 0) return;
    const place = `${metadata.namespace ?? ''}/${metadata.name}`;
    lines.push(`${original.program} still runs (Deployment ${place}): it must not run together with Keyferry`);
  };
  try {
    if (originals.length > 0) await listerOf(api)(DEPLOYMENTS, undefined, take, { signal });
  } catch (error) {
    if (!(error instanceof MissingRight)) throw error;
  }
  return lines;
}

/** The name of an image without registry, tag and digest. */
function imageName(image: string): string {
  return image.slice(image.lastIndexOf('/') + 1).replace(/[:@].*$/, '');
}
