/**
 * `keyferry status` reads rules, copies and problems from the cluster and shows them. It does not need the operator.
 * With `--watch`, it prints changes until its signal is aborted.
 */
import { stringify } from 'yaml';
import type { StatusReport } from '../../scripts/reports/schemas.ts';
import type { Contents } from './snapshot/contents.ts';
import { type Lister, listerOf } from './snapshot/inventory.ts';
import { EXIT_DONE, EXIT_FAILED, EXIT_LOSS_OR_REFUSAL, type StatusOptions } from './actions.ts';
import { type CommandContext, type CommandResult, readSnapshot } from './output/reading.ts';
import { runningOriginals } from './output/originals.ts';
import { reportText } from './output/text.ts';
import { isNotReady, type StatusFindings, onlyFailed, statusReport } from './status/report.ts';
import { statusText, type TextOptions } from './status/text.ts';
import { leadersOf } from './status/leaders.ts';
import { type KubeApi, type KubeStream, METADATA_ONLY } from '../kube/api.ts';
import { ApiError, ConnectionError } from '../kube/errors.ts';
import { anySignal, sleep } from '../runtime/abort.ts';
import { rfc3339 } from '../runtime/text/texts.ts';
import { changesBetween } from './status/changes.ts';

/**
 * Prints the status. With `watch`, prints its changes, too, until the signal is aborted.
 * @throws the errors of `api.request`
 */
export async function status(context: CommandContext, options: StatusOptions): Promise<CommandResult> {
  const { api, cluster, progress } = context;
  const { config, namespace, orphans: isOrphans } = options;
  // With --watch: the contents for the last report. Content that has not changed is not read again.
  let contents: Contents | undefined;
  const report = async (lister: Lister): Promise<StatusFindings> => {
    // The progress line appears only for the first report, because the user waits for it.
    using _ = progress;
    const snapshot = await readSnapshot(context, { config, contents, lister }, namespace);
    contents = snapshot.contents;
    // With `-n`, the caller may have permissions in that namespace only, so the Leases are not read.
    const leaders =
      namespace === undefined && !isOrphans ? await leadersOf(context, options.leaseName) : { leaders: [] };
    const running = await runningOriginals(context, config.controllers);
    return await statusReport(snapshot, cluster, options, { ...leaders, running });
  };
  if (!options.watch) {
    const found = await report(listerOf(api));
    const { rules, orphans } = found.report;
    const isUndone = rules.some(isNotReady) || orphans.some(({ action }) => action === 'delete');
    if (options.output === 'name') for (const note of found.report.notes) context.stderr(`${note}\n`);
    const code = options.exitCode && isUndone ? EXIT_LOSS_OR_REFUSAL : EXIT_DONE;
    return { text: statusText(found, options, context, reportText), code: found.isMissing ? EXIT_FAILED : code };
  }
  await watchStatus({ ...context, report }, options);
  return { text: '', code: EXIT_DONE };
}

/** Changes within this time give one report, ms. It limits the work in a cluster where objects change all the time. */
const SETTLE_MS = 1000;
/** Pause before the next attempt, after the server did not answer or refused a watch, ms. */
const RETRY_MS = 5000;
/** Longest time between two lists, s. The next list shows changes that a dead watch missed, and new APIs. */
const WATCH_SECONDS = 60;

interface WatchContext extends Pick<
  CommandContext,
  'api' | 'paint' | 'columns' | 'now' | 'signal' | 'stdout' | 'stderr'
> {
  /** Makes a report from the objects that the lister reads. @throws the errors of `api.request` */
  readonly report: (lister: Lister) => Promise<StatusFindings>;
}

interface ListedPath {
  readonly path: string;
  /** The resourceVersion of the list. A watch continues from it. */
  readonly resourceVersion: string;
}

/** After each change, lists all objects again and prints what is different. @throws the errors of the first report */
export async function watchStatus(context: WatchContext, options: TextOptions): Promise<void> {
  const { api, signal, stdout, stderr, now, report } = context;
  let before: StatusReport | undefined;
  let isTroubled = false;
  const tell = (trouble: string | undefined): void => {
    if (isTroubled === (trouble !== undefined)) return;
    isTroubled = !isTroubled;
    stderr(`keyferry status: ${rfc3339(now())} ${trouble ?? 'the status is up to date again'}\n`);
  };
  try {
    for (;;) {
      const listed: ListedPath[] = [];
      const lister = listerOf(api, (path, resourceVersion) => listed.push({ path, resourceVersion }));
      try {
        const found = await report(lister);
        stdout(
          before === undefined ? statusText(found, options, context, document) : next(before, found, options, context),
        );
        before = found.report;
        await changed(api, listed, () => tell(undefined), signal);
        await sleep(SETTLE_MS, signal);
      } catch (error) {
        if (before === undefined || !(error instanceof ConnectionError || error instanceof ApiError)) throw error;
        tell(`the status may be out of date: ${error.message}; trying again`);
        await sleep(RETRY_MS, signal);
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/**
 * Settles when an object in the lists changes or is gone, or a new one appears; after `WATCH_SECONDS` at the latest.
 * @param onOpened called when all watches are open, so that no change can be missed
 * @throws the errors of `api.stream`
 */
async function changed(
  api: KubeApi,
  listed: readonly ListedPath[],
  onOpened: () => void,
  signal: AbortSignal,
): Promise<void> {
  using watching = anySignal(signal);
  const open = async ({ path, resourceVersion }: ListedPath): Promise<KubeStream> => {
    const query = { watch: 1, resourceVersion, timeoutSeconds: WATCH_SECONDS };
    return await api.stream({ method: 'GET', path, query, accept: METADATA_ONLY, signal: watching.signal });
  };
  try {
    const streams = await Promise.all(listed.map(open));
    onOpened();
    // Events are not read: the first event of a watch, or its end, means that the lists are out of date.
    const ends = streams.map(async ({ chunks }) => await chunks[Symbol.asyncIterator]().next());
    await Promise.race([...ends, sleep(WATCH_SECONDS * 1000, watching.signal)]);
  } finally {
    watching.abort();
  }
}

/** The changes as text. For JSON and YAML: the whole report if it differs, otherwise ''. */
function next(
  before: StatusReport,
  { report }: StatusFindings,
  { output, failed }: TextOptions,
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

/** The report as one line of JSON, or as one document of YAML. */
function document(report: StatusReport, output: 'json' | 'yaml'): string {
  return output === 'json' ? `${JSON.stringify(report)}\n` : `---\n${stringify(report)}`;
}
