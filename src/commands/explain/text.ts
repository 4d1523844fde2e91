/** The output of `keyferry explain` for people. */
import { copiesText } from '../output/copies-text.ts';
import { failureCell } from '../status/tables.ts';
import type { Cell, Paint, Style } from '../output/styles.ts';
import { TextParts } from '../output/text-table.ts';
import type { ExplainedClaim, Explanation, Verdict } from './report.ts';

const STYLES: Readonly<Partial<Record<Verdict, Style>>> = {
  copy: 'good',
  filled: 'good',
  conflict: 'bad',
  missing: 'bad',
  orphan: 'waiting',
};

/** With a line end. */
export function explanationText(explanation: Explanation, paint: Paint): string {
  const { verdict, summary, claims, others, rule, writers, notes } = explanation;
  const style = STYLES[verdict];
  const parts = new TextParts(paint);
  parts.lines([style === undefined ? summary : paint(summary, style)]);
  const facts = factsOf(explanation);
  if (facts.length > 0) {
    const width = Math.max(...facts.map(([name]) => name.length)) + 2;
    parts.lines(facts.map(([name, text]) => `${paint(name, 'title')}${' '.repeat(width - name.length)}${text}`));
  }
  parts.table(
    ['CLAIMED BY', 'SOURCE', 'DESTINATIONS', 'STATE', 'WHY'],
    claims.map((claim) => claimCells(claim)),
  );
  parts.table(
    ['NOT CLAIMED BY', 'SOURCE', 'DESTINATIONS', 'WHY'],
    others.map(({ rule, source, destinations, why }) => [rule, source ?? '', listText(destinations), why]),
  );
  parts.table(
    ['COPY', 'NAMESPACE', 'NAME', 'AT VERSION'],
    (rule?.copies ?? []).map(({ kind, namespace, name, sourceVersion }) => [kind, namespace, name, sourceVersion]),
  );
  parts.table(
    ['FAILING', 'NAMESPACE', 'NAME', 'WHY'],
    (rule?.failing ?? []).map((target) => [target.kind, target.namespace, target.name, failureCell(target)]),
  );
  parts.table(
    ['WRITTEN BY', 'AT', 'WHAT'],
    writers.map(({ manager, time, wrote }) => [manager, time ?? 'unknown', wrote]),
  );
  parts.lines(notes);
  return parts.toString();
}

function factsOf(explanation: Explanation): [string, string][] {
  const { verdict, owner, source, heldVersion, sourceVersion, next, lastWritten, object, rule, sourceOf } = explanation;
  const facts: [string, string | null][] = [
    [verdict === 'conflict' || verdict === 'missing' ? 'Claimant' : 'Owner', owner],
    ['Source', source],
    ['Version', heldVersion === null ? null : versionText(heldVersion, sourceVersion)],
    ['Next', next && `${next.action}: ${next.reason}`],
    ['Created', object.created],
    ['Written', owner === null || object.exists === false ? null : (lastWritten ?? 'never by Keyferry')],
    ['Deletion', object.deleting ? 'is being deleted' : null],
    ['Rule', rule && `${rule.state}, ${rule.reason}: ${rule.message}`],
    ['Copies', rule && `from ${rule.source} to ${listText(rule.destinations)}`],
    ['Last sync', rule && (rule.lastSyncTime ?? 'never')],
    ...sourceOf.map(({ rule: user, copies }): [string, string] => ['Source of', `${copiesText(copies)} by ${user}`]),
  ];
  return facts.flatMap(([name, text]) => (text === null ? [] : [[name, text]]));
}

function versionText(held: string, current: string | null): string {
  if (held === current) return `that of the source, ${held}`;
  return current === null ? `of its source when it was written, ${held}` : `${held}; the source has ${current}`;
}

function claimCells({ rule, source, destinations, state, reason, message }: ExplainedClaim): Cell[] {
  const cells = [rule, source ?? '', listText(destinations)];
  if (state === 'synced' || state === 'released') return [...cells, { text: state, style: 'good' }, message];
  const { text, style } = failureCell({ state, reason, message });
  return [...cells, { text: state, style }, text];
}

function listText(list: readonly string[]): string {
  return list.join(',') || 'none';
}
