/** What comes into a namespace, what goes out, and who may copy into it. Pure. */
import type { PageData } from '../data.ts';
import type { Model, Row, Target } from './model.ts';

export interface NamespaceFacts {
  readonly incoming: readonly (readonly [Row, Target])[];
  readonly outgoing: readonly Row[];
  /** Who may copy into it, in a sentence. */
  readonly who: string;
}

export function namespaceFacts({ data, rows }: Model, name: string): NamespaceFacts {
  return {
    incoming: rows.flatMap((row) =>
      row.targets.filter(({ namespace }) => namespace === name).map((target) => [row, target] as const),
    ),
    outgoing: rows.filter(({ rule }) => rule.namespace === name),
    who: whoMay(data, name),
  };
}

function whoMay({ namespaces, requiresConsent }: PageData, name: string): string {
  if (namespaces === null)
    return 'Not permitted: the namespaces could not be read, so it is not known who may copy into this one.';
  const found = namespaces.find((one) => one.name === name);
  if (found === undefined) return 'This namespace does not exist, or is being deleted.';
  if (found.closed !== undefined) return `Nobody may copy into this namespace: ${found.closed}.`;
  if (found.acceptFrom === undefined && requiresConsent)
    return 'Only its own rules may copy into this namespace: it has no consent, and --require-consent is on.';
  if (found.acceptFrom === undefined)
    return 'Rules of every namespace may copy into this one: it has no consent, and no limit keeps them out.';
  if (found.acceptFrom === '') return 'Only its own rules may copy into this namespace: its consent is empty.';
  return `Rules of these namespaces may copy into this one, by its annotation keyferry.dev/accept-from: ${found.acceptFrom}`;
}
