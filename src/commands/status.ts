/**
 * `keyferry status` shows rules, copies and problems, read from the cluster. It does not need the operator. With
 * `--watch`, changes follow until the signal is aborted.
 */
import { stringify } from 'yaml';
import type { StatusReport } from '../../scripts/reports/schemas.ts';
import type { Contents } from '../controllers/common/snapshot/contents.ts';
import { type Lister, listerOf } from '../controllers/common/snapshot/inventory.ts';
import { EXIT_DONE, type StatusOptions } from './actions.ts';
import { type CommandContext, type CommandResult, readSnapshot, requireSomeCoverage } from './output/reading.ts';
import { reportText } from './output/text.ts';
import { type StatusFindings, onlyFailed, statusReport, statusText } from './status/report.ts';
import { leadersOf } from './status/leaders.ts';
import { type KubeApi, type KubeStream, METADATA_ONLY } from '../kube/api.ts';
import { ApiError, ConnectionError } from '../kube/errors.ts';
import { anySignal, sleep } from '../runtime/abort.ts';
import { rfc3339 } from '../runtime/text/texts.ts';
import { changesBetween } from './status/changes.ts';

/**
 * With `watch`, prints the status and then its changes, until the signal is aborted.
 * @throws the errors of `api.request`
 */
export async function status(context: CommandContext, options: StatusOptions): Promise<CommandResult> {
  const { api, cluster, paint, progress } = context;
  const { config, namespace, lease } = options;
  // The contents of the last report, for --watch: unchanged content is not read again.
  let contents: Contents | undefined;
  const report = async (lister: Lister): Promise<StatusFindings> => {
    // Progress is shown only for the first report, for which the user waits.
    using _ = progress;
    const snapshot = await readSnapshot(context, { config, contents, namespace, lister });
    contents = snapshot.contents;
    requireSomeCoverage(snapshot, namespace === undefined ? '; use -n NAMESPACE for one namespace' : '');
    // A caller with `-n` may have rights in that namespace only.
    const leaders = namespace === undefined ? await leadersOf(context, lease) : { leaders: [] };
    return await statusReport(snapshot, cluster, namespace, leaders, lease !== undefined);
  };
  if (!options.watch)
    return { text: statusText(await report(listerOf(api)), options, paint, reportText), code: EXIT_DONE };
  await watchStatus({ ...context, report }, options);
  return { text: '', code: EXIT_DONE };
}

/** Changes within this time make one report, ms. It limits the work in a cluster that changes all the time. */
const SETTLE_MS = 1000;
/** Pause between attempts while the server does not answer or refuses a watch, ms. */
const RETRY_MS = 5000;
/** Longest time between two lists, s. So a silently dead watch, and a newly installed API, are noticed. */
const WATCH_SECONDS = 60;

interface WatchContext extends Pick<CommandContext, 'api' | 'paint' | 'now' | 'signal' | 'stdout' | 'stderr'> {
  /** Makes a report from the objects that the lister gives. @throws the errors of `api.request` */
  readonly report: (lister: Lister) => Promise<StatusFindings>;
}

interface ListedPath {
  readonly path: string;
  /** The version of the list, from which a watch continues. */
  readonly resourceVersion: string;
}

type WatchOptions = Pick<StatusOptions, 'output' | 'failed' | 'namespace'>;

/** Makes a new report from new lists after each change. @throws the errors of the first report */
export async function watchStatus(context: WatchContext, options: WatchOptions): Promise<void> {
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
          before === undefined
            ? statusText(found, options, context.paint, document)
            : next(before, found, options, context),
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
 * Settles when an object in these lists changes, or a new one belongs to them, and after `WATCH_SECONDS` at the latest.
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
    // The events are not read: any event, or the end of a watch, means that the lists are old.
    const ends = streams.map(async ({ chunks }) => await chunks[Symbol.asyncIterator]().next());
    await Promise.race([...ends, sleep(WATCH_SECONDS * 1000, watching.signal)]);
  } finally {
    watching.abort();
  }
}

/** The changes; for JSON and YAML the whole report, if it differs. */
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
