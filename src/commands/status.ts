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
import { follow } from './snapshot/kept-lists.ts';
import { rfc3339 } from '../runtime/text/texts.ts';
import { changesBetween } from './status/changes.ts';

/**
 * Prints the status. With `watch`, prints its changes, too, until the signal is aborted.
 * @throws the errors of `api.request`
 */
export async function status(context: CommandContext, options: StatusOptions): Promise<CommandResult> {
  const { api, cluster } = context;
  const { config, namespace, orphans: isOrphans } = options;
  // With --watch: the contents for the last report. Content that has not changed is not read again.
  let contents: Contents | undefined;
  const report = async (lister: Lister): Promise<StatusFindings> => {
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

interface WatchContext extends Pick<
  CommandContext,
  'api' | 'paint' | 'columns' | 'now' | 'signal' | 'stdout' | 'stderr'
> {
  /** Makes a report from the objects that the lister reads. @throws the errors of `api.request` */
  readonly report: (lister: Lister) => Promise<StatusFindings>;
}

/** Prints the first report, and then what is different. @throws the errors of the first report */
export async function watchStatus(context: WatchContext, options: TextOptions): Promise<void> {
  const { api, signal, stdout, stderr, now, report } = context;
  let before: StatusReport | undefined;
  let isTroubled = false;
  const onReport = (found: StatusFindings): void => {
    stdout(
      before === undefined ? statusText(found, options, context, document) : next(before, found, options, context),
    );
    before = found.report;
  };
  const onState = (lost: string | undefined): void => {
    if (isTroubled === (lost !== undefined)) return;
    isTroubled = !isTroubled;
    const text = isTroubled ? `the status may be out of date: ${lost}; trying again` : 'the status is up to date again';
    stderr(`keyferry status: ${rfc3339(now())} ${text}\n`);
  };
  await follow(api, { report, onReport, onState }, signal);
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
