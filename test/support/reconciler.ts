import type { RuleReconciler } from '../../src/copy/engine/controller.ts';
import type { RuleSet } from '../../src/copy/model/rule-set.ts';

/** A reconciler together with its rule set, as one object. */
export type WholeReconciler = RuleSet & Omit<RuleReconciler, 'rules'>;

export function reconcilerOf(parts: WholeReconciler): RuleReconciler {
  return Object.assign(parts, { rules: parts });
}
