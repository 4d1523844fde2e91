/** The differences between two reports of `keyferry status`, for its option `--watch`. Pure. */
import {
  type CopyStatus,
  type FailingTarget,
  type OrphanStatus,
  type RuleStatus,
  titleOf,
} from '../../controllers/common/snapshot/status-report.ts';
import { copiesText } from '../output/text.ts';
import type { Style } from '../output/terminal.ts';
import { hasProblem, type StatusReport } from './report.ts';

export interface Change {
  /** `rule added`, `copy changed`, … */
  readonly what: string;
  /** `Secret default/mysecret` */
  readonly title: string;
  /** The present state, or the last one of a line that is gone. */
  readonly text: string;
  readonly style: Style;
}

/** One line of a report. */
interface Line extends Omit<Change, 'what'> {
  readonly subject: 'rule' | 'copy' | 'failing' | 'orphan';
}

/** @param failed only changes of rules that have or had a problem, and of failing targets */
export function changesBetween(before: StatusReport, after: StatusReport, failed: boolean): Change[] {
  const [old, now] = [linesOf(before), linesOf(after)];
  const troubled = new Set([before, after].flatMap(({ rules }) => rules.filter(hasProblem).map(titleOf)));
  const isShown = ({ subject, title }: Line): boolean =>
    !failed || subject === 'failing' || (subject === 'rule' && troubled.has(title));
  const changes: Change[] = [];
  for (const [key, line] of now) {
    const previous = old.get(key);
    if (!isShown(line) || previous?.text === line.text) continue;
    changes.push(changeOf(line, previous === undefined ? 'added' : 'changed'));
  }
  for (const [key, line] of old) if (isShown(line) && !now.has(key)) changes.push(changeOf(line, 'gone'));
  return changes;
}

function changeOf({ subject, title, text, style }: Line, how: 'added' | 'changed' | 'gone'): Change {
  return { what: `${subject} ${how}`, title, text, style: how === 'gone' ? 'quiet' : style };
}

function linesOf({ rules, orphans }: StatusReport): Map<string, Line> {
  const lines = new Map<string, Line>();
  const add = (line: Line, of = ''): unknown => lines.set(`${line.subject} ${line.title} ${of}`, line);
  for (const rule of rules) {
    const whose = titleOf(rule);
    add({ subject: 'rule', title: whose, text: ruleText(rule), style: rule.ready ? 'good' : 'waiting' }, rule.system);
    for (const copy of rule.copies) add(copyLine(copy, rule), whose);
    for (const target of rule.failing) add(failingLine(target, rule), whose);
  }
  for (const orphan of orphans) add(orphanLine(orphan), orphan.system);
  return lines;
}

function ruleText({ state, copies, lastSyncTime, reason, message }: RuleStatus): string {
  return `${state}, ${copiesText(copies.length)}, last sync ${lastSyncTime ?? 'never'}, ${reason}: ${message}`;
}

function copyLine(copy: CopyStatus, rule: RuleStatus): Line {
  const version = copy.sourceVersion === '' ? '' : ` at version ${copy.sourceVersion}`;
  return { subject: 'copy', title: titleOf(copy), text: `for ${titleOf(rule)}${version}`, style: 'good' };
}

function failingLine(target: FailingTarget, rule: RuleStatus): Line {
  const { reason, message, state } = target;
  const style = state === 'conflict' || state === 'error' ? 'bad' : 'waiting';
  return { subject: 'failing', title: titleOf(target), text: `for ${titleOf(rule)}, ${reason}: ${message}`, style };
}

function orphanLine(orphan: OrphanStatus): Line {
  return { subject: 'orphan', title: titleOf(orphan), text: orphan.reason, style: 'waiting' };
}
