/** What every evaluation of an annotated object begins with. Pure. */
import type { Cause } from '../../../copy/model/cause.ts';
import { leavingClaims, type Owner, rankOf } from '../../../copy/model/claim.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import type { EngineView, Evaluation, OutOfReach } from '../../../copy/model/rule-set.ts';
import type { AnnotatedRules } from './controller.ts';
import type { AnnotatedObject } from './objects.ts';

export interface FoundRule extends AnnotatedObject {
  readonly observed: Observed;
  readonly owner: Owner;
  /** The evaluation of a rule that claims nothing. */
  readonly nothing: Evaluation;
  /** A mistake deletes nothing: the evaluation of a rule that claims the copies that it has, and leaves them as they are. */
  readonly refused: (refusal: Cause, outOfReach?: OutOfReach) => Evaluation;
}

/** The object of a rule; `undefined`: the object is gone, or is no rule, and so has no targets. */
export function findRule(
  rules: Pick<AnnotatedRules, 'objects' | 'targets' | 'versionOf'>,
  rule: RuleKey,
  view: EngineView,
): FoundRule | undefined {
  const { kind, place, observed } = rules.objects.of(rule);
  const version = observed && rules.versionOf(observed);
  if (observed === undefined || version === undefined) {
    rules.targets.leave(rule);
    return undefined;
  }
  const title = `${kind.kind} ${place.namespace}/${place.name}`;
  const owner: Owner = { key: rule, title, rank: rankOf(observed.created, observed.uid) };
  const nothing: Evaluation = { owner, version, claims: [], sources: [] };
  const refused: FoundRule['refused'] = (refusal, outOfReach) => {
    return { ...nothing, refusal, outOfReach, claims: leavingClaims(owner, view.ownedBy(rule), refusal) };
  };
  return { kind, place, observed, owner, nothing, refused };
}
