/** The output of `keyferry explain` for people. */
import { failureCell } from '../status/tables.ts';
import type { Cell, Paint, Style } from '../styles.ts';
import { textTable } from '../text-table.ts';
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
  const parts: string[][] = [[style === undefined ? summary : paint(summary, style)]];
  const facts = factsOf(explanation);
  if (facts.length > 0) {
    const width = Math.max(...facts.map(([name]) => name.length)) + 2;
    parts.push(facts.map(([name, text]) => `${paint(name, 'title')}${' '.repeat(width - name.length)}${text}`));
  }
  const addTable = (header: readonly string[], rows: readonly (readonly Cell[])[]): void => {
    if (rows.length > 0) parts.push(textTable(header, rows, paint));
  };
  addTable(
    ['CLAIMED BY', 'SOURCE', 'DESTINATIONS', 'STATE', 'WHY'],
    claims.map((claim) => claimCells(claim)),
  );
  addTable(
    ['NOT CLAIMED BY', 'SOURCE', 'DESTINATIONS', 'WHY'],
    others.map(({ rule, source, destinations, why }) => [rule, source ?? '', listText(destinations), why]),
  );
  addTable(
    ['COPY', 'NAMESPACE', 'NAME', 'AT VERSION'],
    (rule?.copies ?? []).map(({ kind, namespace, name, sourceVersion }) => [kind, namespace, name, sourceVersion]),
  );
  addTable(
    ['FAILING', 'NAMESPACE', 'NAME', 'WHY'],
    (rule?.failing ?? []).map((target) => [target.kind, target.namespace, target.name, failureCell(target)]),
  );
  addTable(
    ['WRITTEN BY', 'AT', 'WHAT'],
    writers.map(({ manager, time, wrote }) => [manager, time ?? 'unknown', wrote]),
  );
  if (notes.length > 0) parts.push([...notes]);
  return `${parts.map((lines) => lines.join('\n')).join('\n\n')}\n`;
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

function copiesText(count: number): string {
  return count === 1 ? '1 copy' : `${count} copies`;
}
