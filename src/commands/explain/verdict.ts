/** What `keyferry explain` says first. Pure. */
import type { ClaimMode } from '../../copy/model/claim.ts';
import type { Explanation, Verdict } from './report.ts';

export interface Findings {
  /** `undefined`: the permissions of the caller do not show it. */
  readonly exists: boolean | undefined;
  /** The rule whose mark on the object counts. */
  readonly markedBy: string | undefined;
  /** The rules that claim it. */
  readonly claims: readonly { readonly rule: string; readonly mode: ClaimMode }[];
  readonly isRule: boolean;
  readonly isSource: boolean;
}

export function verdictOf({ exists, markedBy, claims, isRule, isSource }: Findings): Verdict {
  if (exists === undefined) return claims.length > 0 || !isRule ? 'unknown' : 'rule';
  const isWanted = claims.some(({ mode }) => mode === 'own');
  if (!exists) return isWanted ? 'missing' : 'absent';
  // Also the copy of a rule that is being deleted.
  if (claims.some(({ rule, mode }) => mode !== 'fill' && rule === markedBy)) return 'copy';
  if (isWanted) return 'conflict';
  if (markedBy !== undefined) return 'orphan';
  if (claims.some(({ mode }) => mode === 'fill')) return 'filled';
  if (isRule) return 'rule';
  return isSource ? 'source' : 'unrelated';
}

type Told = Pick<Explanation, 'verdict' | 'owner' | 'source' | 'next' | 'rule' | 'sourceOf' | 'others'> & {
  readonly object: Pick<Explanation['object'], 'kind' | 'namespace' | 'name'>;
  /** Why it has no rule, of an orphan. */
  readonly orphanReason?: string | undefined;
  /** Its kind is one of rules. */
  readonly isRuleKind?: boolean;
};

/** The verdict in one sentence. */
export function summaryOf(told: Told): string {
  const { object, verdict, owner, source, next, rule, sourceOf, others, orphanReason, isRuleKind = false } = told;
  const it = `${object.kind} ${object.namespace}/${object.name}`;
  const maker = owner ?? 'a rule';
  const origin = source ?? 'its source';
  switch (verdict) {
    case 'copy':
      return `${it} is a copy of ${origin}, which ${maker} makes.`;
    case 'filled':
      return `${it} belongs to its user, and ${maker} fills its data from ${origin}.`;
    case 'conflict':
      return `${it} is not the copy that ${maker} asks for: ${next?.reason ?? 'it belongs to another owner'}.`;
    case 'missing':
      return `${it} does not exist, although ${maker} asks for it as a copy of ${origin}: ${nextText(next)}.`;
    case 'orphan':
      return `${it} was a copy of ${maker}: ${orphanReason ?? nextText(next)}.`;
    case 'rule':
      return `${it} is a rule: ${rule === null ? 'its state is not known' : `${rule.state}, ${rule.reason}`}.`;
    case 'source':
      return `${it} is no copy. It is the source of ${sourceOf.map((one) => one.rule).join(', ')}.`;
    case 'unrelated':
      return `${it} is neither a copy nor a rule: no rule claims it, and it has no mark of Keyferry that counts.`;
    case 'absent': {
      if (isRuleKind) return `${it} does not exist.`;
      const near = others.length === 0 ? '' : ', though rules make others of this name (below)';
      return `${it} does not exist, and no rule asks for it${near}.`;
    }
    case 'unknown':
      return `Whether ${it} exists is not known: no permission to read it.`;
    default:
      return verdict satisfies never;
  }
}

function nextText(next: Explanation['next']): string {
  if (next === null) return 'nothing is known of it';
  const will = { create: 'Keyferry will create it', delete: 'Keyferry will delete it' } as const;
  return next.action === 'create' || next.action === 'delete' ? `${will[next.action]} (${next.reason})` : next.reason;
}
