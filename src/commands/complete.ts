/** The words of a completion that only the kubeconfig or the cluster knows. */
import { contextNames, loadKubeconfig } from '../kube/auth/kubeconfig.ts';
import { HttpKubeApi } from '../kube/http.ts';
import type { Wanted } from './actions.ts';
import { subjectOf } from './explain/subject.ts';
import { ruleCollections } from './readers.ts';
import { type Collection, KINDS, listerOf, NAMESPACES } from './snapshot/inventory.ts';

/** Longer than this, nobody waits after a Tab, ms. */
const TIMEOUT_MS = 3000;

/**
 * The names of contexts, namespaces or objects. Objects without a namespace begin with one: a whole cluster may have too many.
 * @throws KubeconfigError, UsageError for an unknown kind, and the errors of `api.request`
 */
export async function complete(wanted: Wanted, env: NodeJS.ProcessEnv): Promise<readonly string[]> {
  const { kubeconfig: path, context, what, kind, namespace: given, current } = wanted;
  if (what === 'contexts') return await contextNames({ path, env });
  await using api = new HttpKubeApi(await loadKubeconfig({ path, context, env }));
  const namesIn = async (collection: Collection, namespaces?: readonly string[]): Promise<string[]> => {
    const names: string[] = [];
    const options = { metadataOnly: true, signal: AbortSignal.timeout(TIMEOUT_MS) };
    await listerOf(api)(collection, namespaces, ({ metadata }) => void names.push(metadata.name), options);
    return names;
  };
  if (what === 'namespaces') return await namesIn(NAMESPACES);
  const [begun, ...more] = current.split('/');
  const namespace = given ?? (more.length > 0 ? begun : undefined);
  if (namespace === undefined) return (await namesIn(NAMESPACES)).map((name) => `${name}/`);
  const { collection } = subjectOf(kind, 'a/a', [...KINDS, ...ruleCollections()]);
  const names = await namesIn(collection, [namespace]);
  return given === undefined ? names.map((name) => `${namespace}/${name}`) : names;
}
