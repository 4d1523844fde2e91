/** The differences between two reports of `keyferry status`, for `--watch`. Pure. */
import { type TargetPlace, titleOf } from '../snapshot/places.ts';
import { copiesText } from '../output/text.ts';
import type { Style } from '../output/terminal.ts';
import type { StatusReport } from '../../../scripts/reports/schemas.ts';
import { failureCell, hasProblem, onlyFailed } from './report.ts';

export interface Change {
  /** `rule added`, `copy changed`, … */
  readonly what: string;
  /** `Secret default/mysecret` */
  readonly title: string;
  /** The present state; if the object is gone, its last state. */
  readonly text: string;
  readonly style: Style;
}

/** The state of one rule, copy, failing target or orphan. */
interface Line extends Omit<Change, 'what'> {
  readonly subject: 'rule' | 'copy' | 'failing' | 'orphan';
}

/** @param failed only show changes of rules that have or had a problem, of failing targets and of orphans to delete */
export function changesBetween(before: StatusReport, after: StatusReport, failed: boolean): Change[] {
  const [old, now] = [linesOf(before, failed), linesOf(after, failed)];
  const troubled = new Set([before, after].flatMap(({ rules }) => rules.filter(hasProblem).map(titleOf)));
  const isShown = ({ subject, title }: Line): boolean =>
    !failed || subject === 'failing' || subject === 'orphan' || (subject === 'rule' && troubled.has(title));
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
  const what = `${subject} ${how}`;
  if (how !== 'gone') return { what, title, text, style };
  return { what, title, text: subject === 'rule' ? `was ${text}` : text, style: 'quiet' };
}

/** The key of each line consists of subject, object, and the rule or system that it belongs to. */
function linesOf(report: StatusReport, failed: boolean): Map<string, Line> {
  const { rules } = report;
  const { orphans } = failed ? onlyFailed(report) : report;
  const lines = new Map<string, Line>();
  const add = (subject: Line['subject'], place: TargetPlace, text: string, style: Style, of: string): void => {
    const title = titleOf(place);
    lines.set(`${subject} ${title} ${of}`, { subject, title, text, style });
  };
  for (const rule of rules) {
    const { state, ready, copies, failing, lastSyncTime, reason, message, system } = rule;
    const text = `${state}, ${copiesText(copies.length)}, last sync ${lastSyncTime ?? 'never'}, ${reason}: ${message}`;
    add('rule', rule, text, ready ? 'good' : 'waiting', system);
    const title = titleOf(rule);
    for (const copy of copies) {
      const version = copy.sourceVersion === '' ? '' : ` at version ${copy.sourceVersion}`;
      add('copy', copy, `for ${title}${version}`, 'good', title);
    }
    for (const target of failing) {
      const why = `for ${title}, ${target.reason}: ${target.message}`;
      add('failing', target, why, failureCell(target).style, title);
    }
  }
  for (const orphan of orphans) add('orphan', orphan, orphan.reason, 'waiting', orphan.system);
  return lines;
}
