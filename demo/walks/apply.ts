/** Creates the objects of a manifest, and prints what `kubectl apply` would print. */
import { type Manifest, pathOf } from '../cluster.ts';
import type { Stage } from '../walk.ts';

/** Creates the objects in a file of `demo/manifests`. @returns when each request was sent, as `performance.now()` */
export async function apply(
  { cluster, screen }: Stage,
  file: string,
  variables?: Readonly<Record<string, string>>,
): Promise<number[]> {
  const filled = `envsubst < demo/manifests/${file} | kubectl apply -f -`;
  screen.command(variables === undefined ? `kubectl apply -f demo/manifests/${file}` : filled);
  const startedAt: number[] = [];
  for (const object of await cluster.manifests(file, variables)) {
    startedAt.push(performance.now());
    const made = await cluster.create(object);
    if (made === undefined) throw new Error(`${pathOf(object)} already exists`);
    screen.output([`${resourceName(object)}/${object.metadata.name} created`]);
  }
  screen.blank();
  return startedAt;
}

/** What kubectl calls the kind in its output, for example `secret` or `secretmirror.mirrors.kts.studio`. */
function resourceName({ kind, apiVersion = '' }: Manifest): string {
  const [group] = apiVersion.includes('/') ? apiVersion.split('/') : [''];
  return group === '' || group === undefined ? kind.toLowerCase() : `${kind.toLowerCase()}.${group}`;
}
