/** The events about the annotations of a rule, besides those about its outcomes. Pure. */
import { REASONS } from '../../copy/model/reasons.ts';
import type { RuleEvent } from '../../copy/engine/controller.ts';
import { about, warning } from '../../copy/engine/life/warnings.ts';
import { misreadPatterns, type Served, type There, unionOf } from '../common/namespaces/selection.ts';
import type { Targets } from './rules/rule.ts';

/**
 * The events about named namespaces that do not exist or are not served, and about patterns that look like `team-*`.
 * @param served the only namespaces that may contain copies; `undefined`: all
 */
export function warningsOf({ groups, suspects }: Targets, there: There, served: Served | undefined): RuleEvent[] {
  const { names } = unionOf(groups.map((group) => group.namespaces));
  const others = served === undefined ? [] : [...names].filter((namespace) => !served.has(namespace));
  const patterns = misreadPatterns(suspects, there.names());
  const events = patterns.map((message) => warning({ reason: 'MisreadPattern', message }));
  const missing = [...names].filter((namespace) => !there.has(namespace) && !others.includes(namespace));
  if (missing.length > 0) {
    const message = about(missing, REASONS.NoNamespace.says);
    events.unshift({ type: 'Normal', reason: 'NoNamespace', message });
  }
  if (served === undefined || others.length === 0) return events;
  const message = about(others, `not among the namespaces ${served.which}`);
  return [warning({ reason: 'NotServed', message }), ...events];
}
