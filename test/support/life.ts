import type { Life } from '../../src/copy/engine/life/rule-life.ts';
import type { RuleSet } from '../../src/copy/model/rule-set.ts';

/** A life together with its rule set, as one object. */
export type WholeLife = RuleSet & Pick<Life, 'getLive' | 'report' | 'listed' | 'isDue' | 'write'>;

/** By default a rule exists in one version and claims nothing, its copies stay, and nothing is due, awaited or told. */
export function lifeOf(parts: Partial<WholeLife>): Life {
  const nothing = async (): Promise<undefined> => await Promise.resolve(undefined);
  const whole: WholeLife = {
    name: 'rules',
    listed: nothing,
    isDue: () => false,
    write: nothing,
    report: nothing,
    getLive: async () => await Promise.resolve({ state: 'there', version: '1' }),
    evaluate: (key) => ({ owner: { key, title: key, rank: '' }, version: '1', claims: [], sources: [] }),
    markOn: () => undefined,
    orphanPolicy: () => 'keep',
    ...parts,
  };
  return { ...whole, rules: whole };
}
