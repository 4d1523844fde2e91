/** `keyferry explain`: why one object exists, whose it is, and when it was written, or why it does not exist. Writes nothing. */
import { type Collection, KINDS, listerOf } from '../controllers/common/snapshot/inventory.ts';
import { Snapshot } from '../controllers/common/snapshot/snapshot.ts';
import { controllerReaders } from '../controllers/list.ts';
import type { KubeApi } from '../kube/api.ts';
import type { ExplainOptions } from './actions.ts';
import { explanationOf } from './explain/explanation.ts';
import { readStored, subjectOf } from './explain/subject.ts';
import { explanationText } from './explain/report.ts';
import { type Progress, withProgress } from './output/progress.ts';
import { requireSomeReach } from './output/reach-notes.ts';
import { reportText } from './output/text.ts';
import type { Paint } from './output/styles.ts';

interface ExplainContext {
  readonly paint: Paint;
  readonly progress: Progress;
  /** Wall clock, ms. */
  readonly now: number;
  readonly signal?: AbortSignal;
}

/**
 * The text that the command prints.
 * @param cluster host of the API server
 * @throws UsageError for an unknown kind or a bad name, and the errors of `api.request`
 */
export async function explain(
  api: KubeApi,
  cluster: string,
  { kind, place, output, config }: Omit<ExplainOptions, 'kubeconfig' | 'context'>,
  context: ExplainContext,
): Promise<string> {
  const { paint, now, signal } = context;
  using progress = context.progress;
  const controllers = await controllerReaders();
  const collections = controllers.flatMap(({ collection }) => collection ?? []);
  const subject = subjectOf(kind, place, [...KINDS, ...collections] satisfies readonly Collection[]);
  const { namespace } = subject;
  const lister = withProgress(listerOf(api), progress);
  const [stored, snapshot] = await Promise.all([
    readStored(api, subject, signal),
    Snapshot.at({ api, lister, config, controllers, namespace, now, signal }),
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
