/** The report of `keyferry status` as text: a summary, or whole tables with `-o wide`, `--failed` and `--orphans`. */
import type { StatusReport } from '../../../scripts/reports/schemas.ts';
import { command } from '../../runtime/text/command.ts';
import type { StatusOptions } from '../actions.ts';
import type { CommandContext } from '../output/reading.ts';
import { copiesText, TextParts } from '../output/text.ts';
import { titleOf } from '../snapshot/places.ts';
import { leaderLine } from './leaders.ts';
import { failureCell, onlyFailed, type StatusFindings, styleOf } from './report.ts';
import { summary } from './summary.ts';

export type TextOptions = Pick<StatusOptions, 'output' | 'failed' | 'namespace' | 'orphans' | 'copies'>;

/**
 * The report as text. It ends with a line break.
 * @param document makes the output as JSON or YAML
 */
export function statusText(
  findings: StatusFindings,
  options: TextOptions,
  { paint, columns = Infinity, now }: Pick<CommandContext, 'paint' | 'columns' | 'now'>,
  document: (report: StatusReport, format: 'json' | 'yaml') => string,
): string {
  const { output, failed, copies } = options;
  const shown = failed ? { ...findings, report: onlyFailed(findings.report) } : findings;
  const { rules, orphans, systems, leaders, notes } = shown.report;
  if (output === 'json' || output === 'yaml') return document(shown.report, output);
  const deletable = orphans.filter(({ verdict }) => verdict === 'leftover');
  if (output === 'name') return deletable.map((orphan) => `${nameLine(orphan)}\n`).join('');
  const isWhole = failed || output === 'wide' || options.orphans || rules.length === 0;
  const parts = isWhole
    ? tables(shown, options, new TextParts(paint))
    : summary(shown, { paint, columns, now: now(), copies });
  parts.lines(leaders.map((leader) => leaderLine(leader)));
  parts.lines(notes);
  for (const { system, installed } of systems)
    if (!installed)
      parts.lines([`The CRD of ${system} is not installed: run ${command('crds')} | kubectl apply --server-side -f -`]);
  return parts.toString();
}

/** All columns and messages. The format `wide` has more columns, the copies, and all failing targets. */
function tables(
  { report, ruleNames }: StatusFindings,
  { output, failed, namespace, orphans: isOrphans, copies: hasCopies }: TextOptions,
  parts: TextParts,
): TextParts {
  const { rules, orphans, systems } = report;
  const isWide = output === 'wide';
  const destinations = isWide ? ['DESTINATIONS'] : [];
  parts.table(
    ['SYSTEM', 'NAMESPACE', 'NAME', 'SOURCE', ...destinations, 'STATE', 'READY', 'COPIES', 'LAST SYNC', 'WHY'],
    rules.map((rule) => [
      rule.system,
      rule.namespace,
      rule.name,
      rule.source,
      ...(isWide ? [rule.destinations.join(',') || 'none'] : []),
      { text: rule.state, style: styleOf(rule) },
      rule.ready ? 'True' : 'False',
      String(rule.copies.length),
      rule.lastSyncTime ?? 'never',
      `${rule.reason}: ${rule.message}`,
    ]),
  );
  if (isOrphans)
    parts.lines(orphanLines(orphans.length, orphans.filter(({ verdict }) => verdict === 'leftover').length));
  else if (rules.length === 0 && (!failed || orphans.length === 0) && systems.some(({ installed }) => installed)) {
    const place = namespace === undefined ? '' : ` in namespace ${namespace}`;
    parts.lines([failed ? `No problems found${place}.` : `No rules found${place}. Rules are: ${ruleNames}.`]);
  }
  if (failed || isWide) {
    const failing = rules.flatMap((rule) =>
      // A rule that is ready does not fail where only its patterns lead.
      [...rule.failing, ...(rule.ready ? [] : rule.refused.map((one) => ({ ...one, state: 'error' })))].map((one) => {
        return [one.kind, one.namespace, one.name, titleOf(rule), failureCell(one)];
      }),
    );
    parts.table(['FAILING', 'NAMESPACE', 'NAME', 'FOR', 'WHY'], failing);
  }
  const copies = rules.flatMap((rule) =>
    rule.copies.map((one) => [one.kind, one.namespace, one.name, titleOf(rule), rule.source, one.sourceVersion]),
  );
  if (isWide || hasCopies) parts.table(['COPY', 'NAMESPACE', 'NAME', 'FOR', 'OF', 'AT VERSION'], copies);
  parts.table(
    ['ORPHAN', 'NAMESPACE', 'NAME', 'MARKED BY', 'WHY'],
    orphans.map(({ kind, namespace: place, name, owner, reason }) => [kind, place, name, owner, reason]),
  );
  return parts;
}

/** What `xargs -L1 kubectl delete` needs to delete an object: `kubectl` takes one namespace only. */
function nameLine({ kind, namespace, name }: StatusReport['orphans'][number]): string {
  return `-n ${namespace} ${kind.toLowerCase()}/${name}`;
}

function orphanLines(all: number, deletable: number): string[] {
  if (all === 0) return ['Every copy has a rule that wants it.'];
  const how = `${command('status')} --orphans -o name | xargs -rL1 kubectl delete`;
  return deletable === 0 ? [] : [`Nothing needs ${deletable} of ${copiesText(all)}. To delete: ${how}`];
}
