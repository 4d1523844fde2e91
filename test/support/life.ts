import type { Life } from '../../src/copy/engine/life/rule-life.ts';
import type { RuleSet } from '../../src/copy/model/rule-set.ts';

/** A life together with its rule set, as one object. Without the optional parts, nothing is due or waited for. */
export type WholeLife = RuleSet & Pick<Life, 'getLive' | 'report'> & Partial<Pick<Life, 'listed' | 'isDue' | 'write'>>;

export function lifeOf(parts: WholeLife): Life {
  const nothing = async (): Promise<void> => await Promise.resolve();
  return { listed: nothing, isDue: () => false, write: nothing, ...parts, rules: parts };
}
