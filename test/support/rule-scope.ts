/** The scope for rule sets in unit tests: a cluster named `c`. It has no limits, except those that the test sets. */
import type { RuleScope } from '../../src/controllers/common/context.ts';
import { Reach } from '../../src/controllers/common/namespaces/reach.ts';
import { readingConfig, readingFlags } from '../../src/config/flags/controller-flags.ts';
import { initialValues, mapValues, type SectionValues } from '../../src/config/flags/flags.ts';
import { Namespaces } from '../../src/copy/cluster/watch/namespaces.ts';

export function ruleScope(parts: Partial<RuleScope> = {}): RuleScope {
  return {
    cluster: 'c',
    config: readingConfig(mapValues(readingFlags, initialValues) as SectionValues<typeof readingFlags>, new Map()),
    namespaces: new Namespaces(),
    served: undefined,
    reach: new Reach(),
    onRoom: () => undefined,
    ...parts,
  };
}
