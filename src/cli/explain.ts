/** `keyferry explain`: why one object exists, whose it is, and when it was written, or why it does not exist. Writes nothing. */
import { KINDS } from '../controllers/common/snapshot/inventory.ts';
import type { Collection } from '../controllers/common/snapshot/list-permitted.ts';
import { Snapshot } from '../controllers/common/snapshot/snapshot.ts';
import { controllerReaders } from '../controllers/list.ts';
import type { KubeApi } from '../kube/api.ts';
import type { ExplainOptions } from './actions.ts';
import { explanationOf } from './explain/explanation.ts';
import { readStored } from './explain/stored-object.ts';
import { subjectOf } from './explain/subject.ts';
import { explanationText } from './explain/text.ts';
import { requireSomeReach } from './reach-notes.ts';
import { reportText } from './report-text.ts';
import type { Paint } from './styles.ts';

/**
 * The text that the command prints.
 * @param cluster host of the API server
 * @param now wall clock, ms
 * @throws UsageError for an unknown kind or a bad name, and the errors of `api.request`
 */
export async function explain(
  api: KubeApi,
  cluster: string,
  { kind, place, output, config }: Omit<ExplainOptions, 'kubeconfig' | 'context'>,
  { paint, now, signal }: { readonly paint: Paint; readonly now: number; readonly signal?: AbortSignal },
): Promise<string> {
  const controllers = await controllerReaders();
  const collections = controllers.flatMap(({ collection }) => collection ?? []);
  const subject = subjectOf(kind, place, [...KINDS, ...collections] satisfies readonly Collection[]);
  const { namespace } = subject;
  const [stored, snapshot] = await Promise.all([
    readStored(api, subject, signal),
    Snapshot.at({ api, config, controllers, namespace, now, signal }),
  ]);
  requireSomeReach(
    snapshot.inventory,
    collections.map((one) => one.kind),
    '',
  );
  // The snapshot has a reader for each controller, in the same order.
  const index = controllers.findIndex(({ collection }) => collection === subject.collection);
  const ruleNames = [...snapshot.readers.values()][index]?.ruleNames;
  const explanation = await explanationOf({ snapshot, clusterName: api.cluster, cluster, stored, ruleNames }, subject);
  return output === 'table' ? explanationText(explanation, paint) : reportText(explanation, output);
}
