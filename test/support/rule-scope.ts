/** What rule sets are made from in unit tests: a cluster `c` without limits, where nothing else is said. */
import type { RuleScope } from '../../src/controllers/common/context.ts';
import { Reach } from '../../src/controllers/common/namespaces/reach.ts';
import { readingConfig, readingFlags } from '../../src/config/flags/controller-flags.ts';
import { flagsOf } from '../../src/config/flags/flags.ts';
import { Namespaces } from '../../src/copy/cluster/watch/namespaces.ts';

const INITIAL = new Map(flagsOf(readingFlags).map(({ name, initial }) => [name, initial]));

export function ruleScope(parts: Partial<RuleScope> = {}): RuleScope {
  return {
    cluster: 'c',
    config: readingConfig((name) => INITIAL.get(name)),
    namespaces: new Namespaces(),
    served: undefined,
    reach: new Reach(),
    onLimitChange: () => undefined,
    ...parts,
  };
}
