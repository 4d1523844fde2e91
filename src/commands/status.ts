/**
 * `keyferry status`: rules, copies and problems, read from the cluster. The operator need not run. With `--watch` the changes follow as
 * they come, until the signal is aborted.
 */
import { stringify } from 'yaml';
import { Contents } from '../controllers/common/snapshot/contents.ts';
import { type Lister, listerOf } from '../controllers/common/snapshot/inventory.ts';
import { Snapshot } from '../controllers/common/snapshot/snapshot.ts';
import { controllerReaders } from '../controllers/list.ts';
import type { StatusOptions } from './actions.ts';
import { type Progress, withProgress } from './output/progress.ts';
import { requireSomeReach } from './output/reach-notes.ts';
import { reportText } from './output/text.ts';
import { type Found, onlyFailed, statusReport, type StatusReport, statusText } from './status/report.ts';
import { WatchedLists } from '../controllers/common/snapshot/watched-lists.ts';
import type { KubeApi } from '../kube/api.ts';
import { ApiError, ConnectionError } from '../kube/errors.ts';
import { orAborted, sleep } from '../runtime/abort.ts';
import { rfc3339 } from '../runtime/text/rfc3339.ts';
import type { Paint } from './output/styles.ts';
import { changesBetween } from './status/changes.ts';

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

/** Changes within this time are one. It limits the work in a cluster that changes all the time. */
const SETTLE_MS = 1000;

export interface WatchContext {
  readonly api: KubeApi;
  readonly paint: Paint;
  /** Wall clock, ms. */
  readonly now: () => number;
  readonly signal: AbortSignal;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  /** The status of the objects that the lister gives. @throws the errors of `api.request` */
  readonly report: (lister: Lister) => Promise<Found>;
}

type WatchOptions = Pick<StatusOptions, 'output' | 'failed' | 'namespace'>;

/** @throws the errors of the first report */
export async function watchStatus(context: WatchContext, options: WatchOptions): Promise<void> {
  const { api, signal, stdout, stderr, now, report } = context;
  let changed = Promise.withResolvers<void>();
  await using lists = new WatchedLists(api, () => changed.resolve());
  let before: StatusReport | undefined;
  let trouble: string | undefined;
  const tell = (current: string | undefined): void => {
    if (current === trouble) return;
    const text = current === undefined ? 'the status is up to date again' : `${current}; trying again`;
    stderr(`keyferry status: ${rfc3339(now())} ${text}\n`);
    trouble = current;
  };
  try {
    for (;;) {
      changed = Promise.withResolvers();
      let problem = lists.trouble;
      try {
        const found = await report(lists.list);
        stdout(
          before === undefined
            ? statusText(found, options, context.paint, document)
            : next(before, found, options, context),
        );
        before = found.report;
      } catch (error) {
        // Content is read where metadata do not decide, and the server may be gone.
        if (before === undefined || !(error instanceof ConnectionError || error instanceof ApiError)) throw error;
        problem ??= error.message;
      }
      tell(problem);
      // A watch that is open again does not report that by itself.
      if (trouble === undefined) await orAborted(changed.promise, signal, 'the watch');
      await sleep(SETTLE_MS, signal);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** The changes; for programs the whole report, if it differs. */
function next(
  before: StatusReport,
  { report }: Found,
  { output, failed }: WatchOptions,
  { paint, now }: WatchContext,
): string {
  if (output === 'json' || output === 'yaml') {
    const [old, current] = [before, report].map((one) => document(failed ? onlyFailed(one) : one, output));
    return current === undefined || current === old ? '' : current;
  }
  const time = rfc3339(now());
  return changesBetween(before, report, failed)
    .map(({ what, title, text, style }) => `${time}  ${paint(what, style)}  ${title}  ${text}\n`)
    .join('');
}

/** One line of JSON, or one document of YAML. */
function document(report: StatusReport, output: 'json' | 'yaml'): string {
  return output === 'json' ? `${JSON.stringify(report)}\n` : `---\n${stringify(report)}`;
}
