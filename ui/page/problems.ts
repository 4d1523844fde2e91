/** What is wrong now: one problem for each rule, and one for each ring of rules, the worst first. Pure. */
import { placeKey } from './address.ts';
import { type Group, groupsOf, kept, linksOf, type Model, type RuleRow } from './model.ts';
import { byState, copies, type State } from './words.ts';

export interface Problem {
  /** The rule; of a ring, all of them. */
  readonly rows: readonly RuleRow[];
  readonly state: State;
  /** What happened, without the name of the rule. */
  readonly what: string;
  /** Its causes: the first is the worst. None if the rule itself is wrong. */
  readonly groups: readonly Group[];
  readonly reason: string;
  /** The words of the server or of Keyferry. */
  readonly message: string;
}

export const meaning = ({ advice }: Model, reason: string): string => advice.get(reason)?.says ?? reason;

export const problemsOf = kept((model: Model): readonly Problem[] => {
  const wrong = model.rows.filter(({ state }) => state !== 'ok' && state !== 'unknown');
  const rings = ringsAmong(model, wrong);
  const single = wrong.filter((row) => !rings.some((ring) => ring.includes(row)));
  const found = [...rings, ...single.map((row) => [row])].map((rows) => problemOf(model, rows));
  const size = ({ groups }: Problem): number => groups[0]?.targets.length ?? 1;
  return found.toSorted((a, b) => byState(a.state, b.state) || size(b) - size(a));
});

/** Rules in a cycle, of which each copies what the one before makes. */
function ringsAmong(model: Model, wrong: readonly RuleRow[]): RuleRow[][] {
  const rows = wrong.filter(({ rule, targets }) => [rule, ...targets].some(({ reason }) => reason === 'Cycle'));
  const { users } = linksOf(model);
  const next = (row: RuleRow): RuleRow[] =>
    row.targets.flatMap((target) => users.get(placeKey(target)) ?? []).filter((one) => rows.includes(one));
  const rings: RuleRow[][] = [];
  for (const row of rows) {
    if (rings.some((ring) => ring.includes(row))) continue;
    const reached = new Set(next(row));
    for (const one of reached) for (const more of next(one)) reached.add(more);
    if (reached.has(row) && reached.size > 1) rings.push([...reached]);
  }
  return rings;
}

function problemOf(model: Model, rows: readonly RuleRow[]): Problem {
  const [{ rule, state, targets }] = rows as [RuleRow];
  if (rule.ready) {
    const message = rule.warnings.join('; ');
    return { rows, state, what: 'a pattern looks like a mistake', groups: [], reason: 'MisreadPattern', message };
  }
  const groups = groupsOf(targets.filter((target) => target.state !== 'ok'));
  const [first] = groups;
  const { reason, message } = first ?? rule;
  const what = rows.length > 1 ? `${rows.length} rules form a ring` : whatHappened(meaning(model, reason), first);
  return { rows, state, what, groups, reason, message };
}

function whatHappened(says: string, group: Group | undefined): string {
  if (group === undefined) return says;
  const { state, targets } = group;
  const isOne = targets.length === 1;
  if (state === 'waiting') return `${copies(targets.length)} ${isOne ? 'waits' : 'wait'}: ${says}`;
  const made = { pending: 'about to be written', refused: `not allowed: ${says}` } as Partial<Record<State, string>>;
  return `${copies(targets.length)} ${isOne ? 'is' : 'are'} ${made[state] ?? `not made: ${says}`}`;
}
