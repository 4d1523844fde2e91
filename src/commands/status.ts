/** `keyferry status`: rules, copies and problems, read from the cluster. The operator need not run. */
import { Contents } from '../controllers/common/snapshot/contents.ts';
import { type Lister, listerOf } from '../controllers/common/snapshot/list-permitted.ts';
import { Snapshot } from '../controllers/common/snapshot/snapshot.ts';
import { controllerReaders } from '../controllers/list.ts';
import type { StatusOptions } from './actions.ts';
import { type Progress, withProgress } from './output/progress.ts';
import { requireSomeReach } from './output/reach-notes.ts';
import { reportText } from './output/report-text.ts';
import { type Found, statusReport } from './status/report.ts';
import { statusText } from './status/tables.ts';
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
  const { config, namespace } = options;
  const controllers = await controllerReaders();
  const kinds = controllers.flatMap(({ collection }) => collection?.content ?? []);
  // For all reports of --watch: content that did not change is not read again.
  const contents = new Contents(api, signal, new Map(), kinds);
  const report = async (source: Lister): Promise<Found> => {
    // Only the first report is awaited by somebody.
    using _ = progress;
    const lister = withProgress(source, progress);
    const snapshot = await Snapshot.at({ api, config, contents, controllers, namespace, now: now(), signal, lister });
    const hint = namespace === undefined ? '; use -n NAMESPACE for one namespace' : '';
    requireSomeReach(
      snapshot.inventory,
      controllers.flatMap(({ collection }) => collection?.kind ?? []),
      hint,
    );
    return await statusReport(snapshot, cluster, namespace);
  };
  if (options.watch) return await watchStatus({ ...context, report }, options);
  stdout(statusText(await report(listerOf(api)), options, paint, reportText));
}
