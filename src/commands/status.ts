/**
 * `keyferry status`: rules, copies and problems, read from the cluster. The operator need not run. With `--watch` the changes follow as
 * they come, until the signal is aborted.
 */
import { stringify } from 'yaml';
import { Contents } from '../controllers/common/snapshot/contents.ts';
import { type Lister, listerOf } from '../controllers/common/snapshot/inventory.ts';
import { EXIT_DONE, type StatusOptions } from './actions.ts';
import {
  type CommandContext,
  type CommandResult,
  readSnapshot,
  requireSomeCoverage,
  ruleCollections,
} from './output/reading.ts';
import { reportText } from './output/text.ts';
import { type StatusFindings, onlyFailed, statusReport, type StatusReport, statusText } from './status/report.ts';
import { leadersOf } from './status/leaders.ts';
import { WatchedLists } from '../controllers/common/snapshot/watched-lists.ts';
import { ApiError, ConnectionError } from '../kube/errors.ts';
import { orAborted, sleep } from '../runtime/abort.ts';
import { rfc3339 } from '../runtime/text/texts.ts';
import { changesBetween } from './status/changes.ts';

/**
 * With `watch`, prints the status and its changes, until the signal is aborted.
 * @throws the errors of `api.request`
 */
export async function status(context: CommandContext, options: StatusOptions): Promise<CommandResult> {
  const { api, cluster, paint, progress, signal } = context;
  const { config, namespace, lease } = options;
  const kinds = (await ruleCollections()).flatMap(({ content }) => content ?? []);
  // For all reports of --watch: content that did not change is not read again.
  const contents = new Contents(api, signal, new Map(), kinds);
  const report = async (lister: Lister): Promise<StatusFindings> => {
    // Somebody waits for the first report only: later ones show no progress.
    using _ = progress;
    const snapshot = await readSnapshot(context, { config, contents, namespace, lister });
    requireSomeCoverage(snapshot, namespace === undefined ? '; use -n NAMESPACE for one namespace' : '');
    // Who asks for one namespace may have rights in that alone.
    const leaders = namespace === undefined ? await leadersOf(context, lease) : { leaders: [] };
    return await statusReport(snapshot, cluster, namespace, leaders);
  };
  if (!options.watch)
    return { text: statusText(await report(listerOf(api)), options, paint, reportText), code: EXIT_DONE };
  await watchStatus({ ...context, report }, options);
  return { text: '', code: EXIT_DONE };
}

/** Changes within this time are one. It limits the work in a cluster that changes all the time. */
const SETTLE_MS = 1000;

interface WatchContext extends Pick<CommandContext, 'api' | 'paint' | 'now' | 'signal' | 'stdout' | 'stderr'> {
  /** The status of the objects that the lister gives. @throws the errors of `api.request` */
  readonly report: (lister: Lister) => Promise<StatusFindings>;
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
        // A report also reads content, where metadata do not decide, so a later one fails while the server is gone.
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
  { report }: StatusFindings,
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
