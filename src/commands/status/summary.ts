/**
 * What `keyferry status` prints at first: one sentence, then the problems by their causes, worst first, then a line for
 * each rule, broken ones first. Pure.
 */
import { REASONS } from '../../copy/model/reasons.ts';
import { command } from '../../runtime/text/command.ts';
import { wrapped } from '../../runtime/text/wrapped.ts';
import type { Paint } from '../output/terminal.ts';
import { copiesText, TextParts } from '../output/text.ts';
import { titleOf } from '../snapshot/places.ts';
import { LIMITED } from '../snapshot/rule-state.ts';
import type { RuleStatus } from '../snapshot/status-report.ts';
import { hasProblem, isNotReady, isPassing, type StatusFindings, styleOf } from './report.ts';

export interface SummaryOptions {
  readonly paint: Paint;
  /** Width of the terminal. Infinity: the output is for a file or a program. */
  readonly columns: number;
  /** Wall clock, ms. */
  readonly now: number;
  /** Whether each copy has a line. */
  readonly copies: boolean;
}

/** Maximum number of rules that are shown for one cause. */
const EXAMPLES = 3;
const INDENT = '    ';

/** Who can end a reason. */
export const MENDERS = {
  author: 'the author of the rule',
  owner: 'the owner of what the message names',
  policy: 'who keeps limits, consents and policies',
  vault: 'who runs Vault',
  cluster: 'who runs the cluster and Keyferry',
  server: 'who keeps the policy or quota that the message names, or else who runs the cluster',
  nobody: '',
} as const satisfies Record<(typeof REASONS)[keyof typeof REASONS]['who'], string>;

export function summary(findings: StatusFindings, options: SummaryOptions): TextParts {
  const { paint, columns, now } = options;
  const { rules, orphans } = findings.report;
  const parts = new TextParts(paint);
  parts.lines(wrapped(sentence(findings), columns));
  for (const [reason, broken] of causesOf(rules)) parts.lines(causeLines(reason, broken, options));
  const sorted = rules.toSorted((a, b) => severity(b) - severity(a));
  parts.table(
    ['  SYSTEM', 'RULE', 'COPIES', 'SYNCED', 'STATE'],
    sorted.map((rule) => [
      { text: `${isNotReady(rule) ? '✗' : rule.ready ? '✓' : '?'} ${rule.system}`, style: styleOf(rule) },
      titleOf(rule),
      String(rule.copies.length),
      rule.lastSyncTime === null ? 'never' : age(now - Date.parse(rule.lastSyncTime)),
      { text: stateText(rule), style: styleOf(rule) },
    ]),
  );
  if (options.copies) parts.table(['COPY', 'FOR', 'OF'], copyRows(rules));
  if (orphans.length > 0) {
    const verb = orphans.length === 1 ? 'has' : 'have';
    parts.lines(wrapped(`${copiesText(orphans.length)} ${verb} no rule: ${command('status')} --orphans`, columns));
  }
  return parts;
}

/** `61 rules, 309 copies; 20 rules are not ready: 6 NoSecret, 5 Conflict` */
function sentence({ report: { rules } }: StatusFindings): string {
  const copies = rules.reduce((sum, rule) => sum + rule.copies.length, 0);
  const all = `${rulesText(rules.length)}, ${copiesText(copies)}`;
  const unknown = rules.filter(({ reason }) => reason === LIMITED).length;
  const rest = unknown === 0 ? '' : `; ${rulesText(unknown)} cannot be judged by what was read`;
  const broken = rules.filter(isNotReady).length;
  if (broken === 0) return `${all}${unknown > 0 ? '' : `; ${rules.length === 1 ? 'it is' : 'all are'} ready`}${rest}.`;
  const causes = causesOf(rules).map(([reason, of]) => `${of.length} ${reason}`);
  return `${all}; ${rulesText(broken)} ${broken === 1 ? 'is' : 'are'} not ready: ${causes.join(', ')}${rest}.`;
}

/** The last cell of a rule. Of one that is ready and copies nothing, it says why: its author may have meant otherwise. */
function stateText({ ready, state, reason, message, copies, elsewhere }: RuleStatus): string {
  if (!ready) return reason;
  const isIdle = copies.length + elsewhere.length === 0 && message !== '';
  return isIdle ? `${state} (${message})` : state;
}

function rulesText(count: number): string {
  return count === 1 ? '1 rule' : `${count} rules`;
}

/** The rules with problems by their reasons. First those that do not pass by themselves, then by their number. */
function causesOf(rules: readonly RuleStatus[]): (readonly [reason: string, rules: readonly RuleStatus[]])[] {
  const causes = Map.groupBy(rules.filter(hasProblem), ({ ready, reason }) => (ready ? 'MisreadPattern' : reason));
  const worst = (broken: readonly RuleStatus[]): number => Math.max(...broken.map(severity));
  return [...causes].toSorted(([, a], [, b]) => worst(b) - worst(a) || b.length - a.length);
}

/** 3: somebody must act. 2: it passes. 1: unknown, or a warning. 0: ready. */
function severity(rule: RuleStatus): number {
  if (isNotReady(rule)) return isPassing(rule) ? 2 : 3;
  return hasProblem(rule) || !rule.ready ? 1 : 0;
}

function causeLines(reason: string, broken: readonly RuleStatus[], { paint, columns }: SummaryOptions): string[] {
  const entry = reason in REASONS ? REASONS[reason as keyof typeof REASONS] : undefined;
  const [first] = broken;
  const style = first === undefined ? 'bad' : styleOf(first);
  const head = `${broken.length} × ${reason}${entry === undefined ? '' : `: ${entry.says}`}`;
  const examples = broken.slice(0, EXAMPLES).flatMap((rule) => {
    const why = rule.ready ? rule.warnings.join('; ') : rule.message;
    return wrapped(`${titleOf(rule)}: ${why}`, columns, INDENT);
  });
  const more = broken.length - EXAMPLES;
  const rest = more > 0 ? wrapped(`and ${more} more: ${command('status')} --failed`, columns, INDENT) : [];
  const how =
    entry === undefined || entry.how === '' ? [] : wrapped(`→ ${MENDERS[entry.who]}: ${entry.how}`, columns, INDENT);
  const [mark, ...lines] = wrapped(head, columns - 2);
  return [paint(`✗ ${mark ?? ''}`, style), ...lines.map((line) => `  ${line}`), ...examples, ...rest, ...how];
}

function copyRows(rules: readonly RuleStatus[]): string[][] {
  return rules.flatMap((rule) => rule.copies.map((copy) => [titleOf(copy), titleOf(rule), rule.source]));
}

/** Seconds in each unit of an age. */
const UNITS = [
  ['d', 86_400],
  ['h', 3600],
  ['m', 60],
] as const;

/** The age of something in one unit, as kubectl shows it. It changes its unit at two of the next one. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [unit, size] = UNITS.find(([, of]) => seconds >= 2 * of) ?? ['s', 1];
  return `${Math.floor(seconds / size)}${unit}`;
}
