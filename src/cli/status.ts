/** `keyferry status`: rules, copies and problems, read from the cluster. The operator need not run. */
import type { KubeApi } from '../kube/api.ts';
import { type Lister, listerOf } from '../controllers/common/snapshot/list-permitted.ts';
import { Snapshot } from '../controllers/common/snapshot/snapshot.ts';
import { controllerReaders } from '../controllers/list.ts';
import type { StatusOptions } from './actions.ts';
import { type Progress, withProgress } from './progress.ts';
import { requireSomeReach } from './reach-notes.ts';
import { reportText } from './report-text.ts';
import { type Found, onlyFailed, statusReport } from './status/report.ts';
import { statusTables } from './status/tables.ts';
import { watchStatus, type WatchContext } from './status/watch.ts';

type Options = Omit<StatusOptions, 'kubeconfig' | 'context'>;

/**
 * Prints the status; with `watch` also its changes, until the signal is aborted.
 * @param cluster host of the API server
 * @throws the errors of `api.request`
 */
export async function status(
  cluster: string,
  options: Options,
  context: Omit<WatchContext, 'report'> & { readonly progress: Progress },
): Promise<void> {
  const { api, now, paint, progress, signal, stdout } = context;
  const { output, failed, namespace } = options;
  const report = async (source: Lister): Promise<Found> => {
    // Only the first report is awaited by somebody.
    using _ = progress;
    return await find(api, cluster, options, now(), signal, withProgress(source, progress));
  };
  if (options.watch) return await watchStatus({ ...context, report }, options);
  const found = await report(listerOf(api));
  const shown = failed ? onlyFailed(found.report) : found.report;
  if (output === 'json' || output === 'yaml') stdout(reportText(shown, output));
  else stdout(statusTables({ ...found, report: shown }, { failed, namespace, isWide: output === 'wide', paint }));
}

async function find(
  api: KubeApi,
  cluster: string,
  { namespace, config }: Options,
  now: number,
  signal: AbortSignal,
  lister: Lister,
): Promise<Found> {
  const controllers = await controllerReaders();
  const snapshot = await Snapshot.at({ api, config, controllers, namespace, now, signal, lister });
  const hint = namespace === undefined ? '; use -n NAMESPACE for one namespace' : '';
  const kinds = controllers.flatMap(({ collection }) => collection?.kind ?? []);
  requireSomeReach(snapshot.inventory, kinds, hint);
  return await statusReport(snapshot, cluster, namespace);
}
