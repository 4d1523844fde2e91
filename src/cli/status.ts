/** `keyferry status`: rules, copies and problems, read from the cluster. The operator need not run. */
import type { KubeApi } from '../kube/api.ts';
import { Snapshot } from '../controllers/common/snapshot/snapshot.ts';
import { controllerReaders } from '../controllers/list.ts';
import type { StatusOptions } from './actions.ts';
import { requireSomeReach } from './reach-notes.ts';
import { reportText } from './report-text.ts';
import { onlyFailed, statusReport } from './status/report.ts';
import { statusTables } from './status/tables.ts';
import type { Paint } from './styles.ts';

/**
 * The text that the command prints.
 * @param now wall clock, ms
 * @throws the errors of `api.request`
 */
export async function status(
  api: KubeApi,
  cluster: string,
  options: Omit<StatusOptions, 'kubeconfig' | 'context'>,
  { paint, now, signal }: { readonly paint: Paint; readonly now: number; readonly signal?: AbortSignal },
): Promise<string> {
  const { namespace, output, config, failed } = options;
  const controllers = await controllerReaders();
  const snapshot = await Snapshot.at({ api, config, controllers, namespace, now, signal });
  const hint = namespace === undefined ? '; use -n NAMESPACE for one namespace' : '';
  const kinds = controllers.flatMap(({ collection }) => collection?.kind ?? []);
  requireSomeReach(snapshot.inventory, kinds, hint);
  const found = await statusReport(snapshot, cluster, namespace);
  const report = failed ? onlyFailed(found.report) : found.report;
  if (output === 'json' || output === 'yaml') return reportText(report, output);
  return statusTables({ ...found, report }, { failed, namespace, isWide: output === 'wide', paint });
}
