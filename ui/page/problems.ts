/** What is wrong now: one problem for each rule, and one for each ring of rules, the worst first. Pure. */
import type { Advice } from '../data.ts';
import { type Group, groupsOf, kept, linksOf, type Model, placeKey, type Row } from './model.ts';
import { byState, type State } from './states.ts';
import { count, sentence } from './text.ts';

export interface Problem {
  /** The rule; of a ring, all of them. */
  readonly rows: readonly Row[];
  readonly state: State;
  /** What happened, without the name of the rule. */
  readonly what: string;
  /** Its causes: the first is the worst. None if the rule itself is wrong. */
  readonly groups: readonly Group[];
  readonly reason: string;
  /** The words of the server or of Keyferry. */
  readonly message: string;
  readonly since: string | null;
}

const WHO: Readonly<Record<Advice['who'], string>> = {
  author: 'The author of the rule',
  owner: 'The owner of the object',
  policy: 'Whoever keeps the limits and policies',
  vault: 'Whoever operates Vault',
  cluster: 'Whoever operates the cluster and Keyferry',
  nobody: '',
};

/** Who mends a reason and how; `undefined`: this is not known, so the message stands alone. */
export function mender({ data }: Model, reason: string): { readonly who: string; readonly how: string } | undefined {
  const advice = Object.hasOwn(data.advice, reason) ? data.advice[reason] : undefined;
  if (advice === undefined) return undefined;
  if (advice.who === 'nobody') return { who: 'Nobody', how: 'needs to do anything: it passes.' };
  return {
    who: WHO[advice.who],
    how: `can end this: ${sentence(advice.how).replace(/^./, (first) => first.toLowerCase())}`,
  };
}

/** What a reason means. */
export function meaning({ data }: Model, reason: string): string {
  return Object.hasOwn(data.advice, reason) ? (data.advice[reason]?.says ?? reason) : reason;
}

export const problemsOf = kept((model: Model): readonly Problem[] => {
  const wrong = model.rows.filter(
    ({ rule, state }) => (state !== 'ok' && state !== 'unknown') || rule.warnings.length > 0,
  );
  const isInRing = (row: Row): boolean =>
    row.rule.reason === 'Cycle' || row.targets.some(({ reason }) => reason === 'Cycle');
  const rings = ringsAmong(
    model,
    wrong.filter((row) => isInRing(row)),
  );
  const single = wrong.filter((row) => !rings.some((ring) => ring.includes(row)));
  const found = [...rings, ...single.map((row) => [row])].map((rows) => problemOf(model, rows));
  const size = ({ groups }: Problem): number => groups[0]?.targets.length ?? 1;
  return found.toSorted((a, b) => byState(a.state, b.state) || size(b) - size(a));
});

/** Rules of which each copies what the one before makes. */
function ringsAmong(model: Model, rows: readonly Row[]): Row[][] {
  const { users } = linksOf(model);
  const next = (row: Row): Row[] =>
    row.targets.flatMap((target) => users.get(placeKey(target)) ?? []).filter((one) => rows.includes(one));
  const rings: Row[][] = [];
  for (const row of rows) {
    if (rings.some((ring) => ring.includes(row))) continue;
    const reached = new Set(next(row));
    for (const one of reached) for (const more of next(one)) reached.add(more);
    if (reached.has(row) && reached.size > 1) rings.push([...reached]);
  }
  return rings;
}

function problemOf(model: Model, rows: readonly Row[]): Problem {
  const [{ rule, state, targets }] = rows as [Row];
  const wrong = targets.filter((target) => target.state !== 'ok' && (target.state !== 'refused' || !rule.ready));
  const groups = groupsOf(wrong);
  const [first] = groups;
  const reason = first?.reason ?? rule.reason;
  const isWarning = rule.ready && rule.warnings.length > 0;
  return {
    rows,
    state: isWarning ? 'waiting' : state,
    what: isWarning
      ? 'a pattern looks like a mistake'
      : rows.length > 1
        ? `${rows.length} rules form a ring`
        : whatHappened(model, first, reason),
    groups: isWarning ? [] : groups,
    reason: isWarning ? 'MisreadPattern' : reason,
    message: isWarning ? rule.warnings.join('; ') : (first?.targets[0]?.message ?? rule.message),
    since: rule.since,
  };
}

function whatHappened(model: Model, group: Group | undefined, reason: string): string {
  const says = meaning(model, reason);
  if (group === undefined) return says;
  const copies = count(group.targets.length, 'copy', 'copies');
  const [is, waits] = group.targets.length === 1 ? ['is', 'waits'] : ['are', 'wait'];
  if (group.state === 'pending') return `${copies} ${is} about to be written`;
  if (group.state === 'waiting') return `${copies} ${waits}: ${says}`;
  if (group.state === 'refused') return `${copies} ${is} not allowed: ${says}`;
  return `${copies} ${is} not made: ${says}`;
}
