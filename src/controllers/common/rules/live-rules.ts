/** Reads rules from the server before a copy is deleted as an orphan. */
import { parseRuleKey, type RuleKey } from '../../../copy/model/keys.ts';
import type { RuleState } from '../../../copy/model/rule-set.ts';
import type { RuleReconciler } from '../../../copy/engine/rule-reconciler.ts';
import { isObjectGone } from '../../../kube/errors.ts';
import { SingleFlight } from '../../../runtime/queue/single-flight.ts';

/** Differs from the version of every evaluation. */
const NOT_EVALUATED = '';

/**
 * @param readVersion the version of the rule on the server; `undefined`: the object is not a rule any more. @throws ApiError
 * @param isOutdated the rule is not evaluated yet for a namespace that was added or deleted. Default: no rule depends on namespaces
 */
export function liveRules(
  readVersion: (rule: RuleKey, signal: AbortSignal) => Promise<string | undefined>,
  isOutdated: (rule: RuleKey) => boolean = () => false,
): RuleReconciler['getLive'] {
  const reads = new SingleFlight<RuleState>();
  const read = async (rule: RuleKey, signal: AbortSignal): Promise<RuleState> => {
    try {
      const version = await readVersion(rule, signal);
      if (version === undefined) return { state: 'gone' };
      return { state: 'there', version: isOutdated(rule) ? NOT_EVALUATED : version };
    } catch (error) {
      if (isObjectGone(error, parseRuleKey(rule).name)) return { state: 'gone' };
      throw error;
    }
  };
  return async (rule, signal) => await reads.run(rule, async (shared) => await read(rule, shared), signal);
}
