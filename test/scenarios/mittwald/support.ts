/** Shared by the scenarios of mittwald: the annotations as its users write them. */
import type { Json } from '../../support/api.ts';
import { AnnotatedScene, type Texts } from '../annotated/support.ts';
import { annotation } from '../replicator/support.ts';

export { KINDS } from '../annotated/support.ts';

const PREFIX = 'replicator.v1.mittwald.de';

/** `from`, `to`, `matching`, `allowed` and `allowed-namespaces` stand for the long names. */
const SHORT: Texts = {
  from: 'replicate-from',
  to: 'replicate-to',
  matching: 'replicate-to-matching',
  allowed: 'replication-allowed',
  'allowed-namespaces': 'replication-allowed-namespaces',
};

export function annotations(values: Readonly<Record<string, string | null>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name.includes('/') ? name : `${PREFIX}/${SHORT[name] ?? name}`,
      value as string,
    ]),
  );
}

/** The annotations of a source that everybody may pull from. */
export const OPEN: Texts = { allowed: 'true', 'allowed-namespaces': '.*' };

export function mark(object: Json, name: string): string | undefined {
  return annotation(object, name, PREFIX);
}

export class MittwaldScene extends AnnotatedScene {
  protected override readonly command: string = 'mittwald';

  protected override annotations(given: Readonly<Record<string, string | null>>): Record<string, string> {
    return annotations(given);
  }
}
