/**
 * The output of `keyferry explain`: its report, the verdict as a sentence, and the tables for people. JSON and YAML
 * have exactly the report's fields. Later versions may add fields, but change and remove none. The schema is
 * docs/schemas/explain.json. Pure.
 */
import { type TargetPlace, titleOf } from '../snapshot/places.ts';
import type { Explanation } from '../../../scripts/reports/schemas.ts';
import type { ClaimMode } from '../../copy/model/claim.ts';
import { copiesText, TextParts } from '../output/text.ts';
import { failureCell } from '../status/report.ts';
import { wrapped } from '../../runtime/text/wrapped.ts';
import type { CommandContext } from '../output/reading.ts';
import type { Cell, Style } from '../output/terminal.ts';

type Verdict = Explanation['verdict'];
/** A rule that claims the object. */
type ExplainedClaim = Explanation['claims'][number];
/** A rule that makes objects with the same kind and name, but not this object. */
export type OtherRule = Explanation['others'][number];

/** The facts from which the verdict follows. */
export interface Findings extends Pick<Explanation, 'owner' | 'source' | 'next' | 'rule' | 'sourceOf' | 'others'> {
  readonly object: TargetPlace;
  readonly exists: boolean;
  /** The rule that the object's mark names; `undefined`: no mark, or the mark was written for another place. */
  readonly markedBy: string | undefined;
  /** Why it is unknown whether the rule `markedBy` exists. */
  readonly hidden?: string | undefined;
  /** The claims on the object. */
  readonly claims: readonly (Pick<ExplainedClaim, 'rule' | 'state' | 'reason' | 'message'> & {
    readonly mode: ClaimMode;
  })[];
  /** For an orphan: why no rule claims it. */
  readonly orphanReason?: string | undefined;
  /** A condition of a claiming rule, if it contradicts what this command decided. */
  readonly contrary?: string | undefined;
  /** Why Keyferry does not serve the object's namespace; `undefined`: it may serve it. */
  readonly unserved?: string | undefined;
  /** The controller whose label of a copy the object has, if this command does not read its rules. */
  readonly unreadMaker?: string | undefined;
  /** Whether the object has the label of a copy. */
  readonly isLabelled?: boolean;
  /** Whether only some namespaces were read, so that rules of others may concern the object. */
  readonly isPartial?: boolean;
  /** Whether the command did not list objects of this kind, so that marks on the object were not seen. */
  readonly isUnlisted?: boolean;
  /** Whether objects of this kind may be rules. */
  readonly isRuleKind?: boolean;
  /** Whether the object's namespace does not exist. If so, no rule can make the object, even a rule that names it. */
  readonly lacksNamespace?: boolean;
  /** Whether a rule selects the object's namespace, but a limit or a missing consent keeps it from copying there. */
  readonly isRefused?: boolean;
  /** The settings that the command assumes, as `--name=value`. The operator may have others. */
  readonly flags?: readonly string[];
}

export function judge(findings: Findings): Pick<Explanation, 'verdict' | 'summary'> {
  const { object, exists, markedBy, hidden, claims, owner, source, next, rule, sourceOf, orphanReason } = findings;
  const {
    unserved,
    unreadMaker,
    isLabelled = false,
    isPartial = false,
    isRuleKind = false,
    isUnlisted = false,
  } = findings;
  const flags = [...new Set(findings.flags?.map((flag) => flag.replace(/=.*/s, '')))].join(', ');
  const it = flags === '' ? titleOf(object) : `With ${flags}, ${titleOf(object)}`;
  const maker = owner ?? 'a rule';
  const origin = source ?? 'its source';
  const is = (verdict: Verdict, what: string) => ({ verdict, summary: `${it} ${what}.` });
  const isWanted = claims.some(({ mode }) => mode === 'own');
  if (!exists) {
    const isUnknown = isPartial && !isRuleKind && unserved === undefined;
    if (!isWanted) return is(isUnknown ? 'unknown' : 'absent', absence(findings));
    const why = findings.contrary ?? nextText(next);
    return is('missing', `does not exist, although ${maker} asks for it as a copy of ${origin}: ${why}`);
  }
  // Also while the rule is being deleted: the copy then still belongs to the rule.
  if (claims.some((claim) => claim.mode !== 'fill' && claim.rule === markedBy))
    return is('copy', `is a copy of ${origin}, which ${maker} makes`);
  if (isWanted)
    return is('conflict', `is not the copy that ${maker} asks for: ${next?.reason ?? 'it belongs to another owner'}`);
  if (hidden !== undefined)
    return is('unknown', `has the mark of ${maker}, and whether it is its copy is not known: ${hidden}`);
  if (markedBy !== undefined) {
    const was = flags === '' ? 'was' : 'would no longer be';
    return is('orphan', `${was} a copy of ${maker}: ${orphanReason ?? nextText(next)}`);
  }
  if (unreadMaker !== undefined)
    return is('unknown', `has the mark of ${unreadMaker}, which this command does not read (--controllers)`);
  if (claims.some(({ mode }) => mode === 'fill')) {
    const failed = failedFill(claims, owner);
    if (failed === undefined) return is('filled', `belongs to its user, and ${maker} fills its data from ${origin}`);
    const why = `${failed.reason}: ${failed.message}`;
    return is('filled', `belongs to its user, and asks to be filled from ${origin}, but is not: ${why}`);
  }
  if (rule !== null) return is('rule', `is a rule: ${rule.state}, ${rule.reason}`);
  if (sourceOf.length > 0) {
    const users = sourceOf.map((one) => one.rule).join(', ');
    if (sourceOf.some(({ copies }) => copies > 0)) return is('source', `is no copy. It is the source of ${users}`);
    return is('source', `is no copy, and none is made of it, although a rule asks for one: ${users}`);
  }
  if (unserved !== undefined) return is('unrelated', `is left alone: ${unserved}`);
  if (isUnlisted)
    return is('unknown', 'may be a copy or a rule: this command did not list objects of its kind (--controllers)');
  const mark = isLabelled ? 'although it has the label keyferry.dev/copy' : 'and it has no mark of Keyferry';
  const why = orphanReason ?? `no rule${isPartial ? READ : ''} claims it, ${mark}`;
  return is('unrelated', `is neither a copy nor a rule: ${why}`);
}

/** Where the rules are that were read, if these are not all. */
const READ = ' that was read';

function absence({ others, unserved, isRuleKind, lacksNamespace, isRefused, isPartial }: Findings): string {
  const gone = 'does not exist';
  if (unserved !== undefined) return `${gone}, and ${unserved}`;
  if (isRuleKind === true) return gone;
  const near = others.length === 0 ? '' : ', though there are rules for this name (below)';
  if (lacksNamespace === true) return `${gone}, because its namespace does not exist${near}`;
  if (isRefused === true) return `${gone}, because the rule that asks for it does not copy there (below)`;
  return `${gone}, and no rule${isPartial === true ? READ : ''} makes it${near}`;
}

/** The owner's claim to fill the object, if it failed or waits; `undefined`: the object is filled. */
function failedFill<Claim extends Pick<ExplainedClaim, 'rule' | 'state'>>(
  claims: readonly Claim[],
  owner: string | null,
): Claim | undefined {
  return claims.find(({ rule, state }) => rule === owner && ['waiting', 'conflict', 'error'].includes(state));
}

function nextText(next: Explanation['next']): string {
  if (next === null) return 'nothing more is known';
  const will = { create: 'Keyferry will create it', delete: 'Keyferry will delete it' } as const;
  return next.action === 'create' || next.action === 'delete' ? `${will[next.action]} (${next.reason})` : next.reason;
}

const STYLES: Readonly<Partial<Record<Verdict, Style>>> = {
  copy: 'good',
  filled: 'good',
  conflict: 'bad',
  missing: 'bad',
  orphan: 'waiting',
};

/**
 * The report as text. It ends with a line break. A message that stands above is not repeated: its reason is enough.
 * @param settings what the command assumes for the operator: what follows from it comes first, then what is the case now
 */
export function explanationText(
  explanation: Explanation,
  { paint, columns = Infinity }: Pick<CommandContext, 'paint' | 'columns'>,
  settings: readonly string[] = [],
): string {
  const { verdict, summary, claims, others, rule, usedBy, usersUnread, writers, notes } = explanation;
  const style = verdict === 'filled' && failedFill(claims, explanation.owner) !== undefined ? 'bad' : STYLES[verdict];
  const parts = new TextParts(paint);
  const block = (text: string): string[] => wrapped(text, columns);
  parts.lines(block(summary).map((line) => (style === undefined ? line : paint(line, style))));
  const facts = claimFacts(explanation);
  parts.facts(facts);
  const said = [summary, ...facts.map(([, text]) => text)].join('\n');
  parts.table(
    ['CLAIMED BY', 'SOURCE', 'DESTINATIONS', 'STATE', 'WHY'],
    claims.filter((claim) => !isSaid(explanation, claim)).map((claim) => claimCells(unsaid(claim, said))),
  );
  parts.table(
    ['NOT CLAIMED BY', 'SOURCE', 'DESTINATIONS', 'WHY'],
    others.map((one) => [one.rule, one.source ?? '', listText(one.destinations), one.why]),
  );
  parts.table(
    ['COPY', 'NAMESPACE', 'NAME', 'AT VERSION'],
    (rule?.copies ?? []).map(({ kind, namespace, name, sourceVersion }) => [kind, namespace, name, sourceVersion]),
  );
  parts.table(
    ['FAILING', 'NAMESPACE', 'NAME', 'WHY'],
    (rule?.failing ?? []).map((target) => {
      return [target.kind, target.namespace, target.name, failureCell(unsaid(target, said))];
    }),
  );
  const above = `Above is what follows from ${settings.join(' ')}. Now, with any settings:`;
  if (settings.length > 0) parts.lines(block(above));
  parts.facts(objectFacts(explanation));
  parts.table(
    ['USED BY', 'AS'],
    usedBy.map(({ kind, name, as }) => [`${kind} ${name}`, as.join('; ')]),
  );
  parts.table(
    ['WRITTEN BY', 'AT', 'WHAT'],
    writers.map(({ manager, time, wrote }) => [manager, time ?? 'unknown', wrote]),
  );
  const unread = `No permission to list these, so whether they use it is not known: ${usersUnread.join(', ')}`;
  const unsaidNotes = notes.filter((note) => !said.includes(note) && !settings.some((one) => note.endsWith(one)));
  parts.lines([...(usersUnread.length > 0 ? [unread] : []), ...unsaidNotes].flatMap(block));
  return parts.toString();
}

/** Whether the facts have all of a claim: it is the only one, of the owner, and there is nothing to say about it. */
function isSaid({ claims, owner }: Explanation, { rule, state, message }: ExplainedClaim): boolean {
  return claims.length === 1 && rule === owner && state === 'synced' && message === '';
}

/** Removes a message that is in the text already. */
function unsaid<Told extends { readonly message: string }>(told: Told, said: string): Told {
  return said.includes(told.message) ? { ...told, message: '' } : told;
}

/** What the rules want. */
function claimFacts(explanation: Explanation): [string, string][] {
  const { verdict, summary, owner, source, next, claims } = explanation;
  const rule = explanation.rule && unsaid(explanation.rule, summary);
  const said = claims.find((claim) => isSaid(explanation, claim));
  const isNew = (text: string | null): string | null => (text !== null && summary.includes(text) ? null : text);
  return known([
    [verdict === 'conflict' || verdict === 'missing' ? 'Claimant' : 'Owner', isNew(owner)],
    ['Source', isNew(source)],
    ['Copied to', said ? listText(said.destinations) : null],
    ['Next', next && (summary.includes(next.reason) ? next.action : `${next.action}: ${next.reason}`)],
    ['Rule', rule && isNew(`${rule.state}, ${failureCell(rule).text}`)],
    ['Asks for', rule && `copies of ${rule.source} in ${listText(rule.destinations)}`],
    ...explanation.sourceOf.map(({ rule: user, copies }): Fact => ['Source of', `${copiesText(copies)} by ${user}`]),
  ]);
}

/** What is, whatever the rules want. */
function objectFacts({ owner, heldVersion, sourceVersion, lastWritten, rule, object, ...users }: Explanation) {
  const isNamed = users.usedBy.length + users.usersUnread.length > 0 || !['Secret', 'ConfigMap'].includes(object.kind);
  return known([
    ['Version', heldVersion === null ? null : versionText(heldVersion, sourceVersion)],
    ['Created', object.created],
    ['Written', owner === null || !object.exists ? null : (lastWritten ?? 'never by Keyferry')],
    ['Deletion', object.deleting ? 'is being deleted' : null],
    ['Last sync', rule && (rule.lastSyncTime ?? 'never')],
    ['Used by', isNamed || !object.exists ? null : 'no Pod, workload, ServiceAccount or Ingress of its namespace'],
  ]);
}

type Fact = [name: string, text: string | null];

function known(facts: readonly Fact[]): [string, string][] {
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
