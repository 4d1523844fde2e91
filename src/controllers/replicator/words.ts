/** The events about the namespaces that a rule names. Pure. */
import { REASONS } from '../../copy/model/reasons.ts';
import type { RuleEvent } from '../../copy/engine/controller.ts';
import { about, warning } from '../../copy/engine/life/warnings.ts';
import { type Served, type There, unionOf } from '../common/namespaces/selection.ts';
import type { Targets } from './rules/rule.ts';

/**
 * The events about named namespaces that do not exist or are not served.
 * @param served the only namespaces that may contain copies; `undefined`: all
 */
export function namespaceWarnings({ groups }: Targets, there: There, served: Served | undefined): RuleEvent[] {
  const names = [...unionOf(groups.map((group) => group.namespaces)).names];
  const others = names.filter((namespace) => served?.has(namespace) === false);
  const missing = names.filter((namespace) => !there.has(namespace) && !others.includes(namespace));
  const notServed = `not among the namespaces ${served?.which}`;
  const noNamespace = about(missing, REASONS.NoNamespace.says);
  return [
    ...(others.length === 0 ? [] : [warning({ reason: 'NotServed', message: about(others, notServed) })]),
    ...(missing.length === 0 ? [] : [{ type: 'Normal', reason: 'NoNamespace', message: noNamespace } as const]),
  ];
}
