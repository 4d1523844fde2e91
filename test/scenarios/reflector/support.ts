/** Shared by the scenarios of reflector: the annotations as its users write them. */
import type { Json } from '../../support/api.ts';
import { AnnotatedScene, type Texts } from '../annotated/support.ts';
import { annotation } from '../replicator/support.ts';

const PREFIX = 'reflector.v1.k8s.emberstack.com';

/** `allowed`, `auto-namespaces` and so on stand for `reflection-allowed`, `reflection-auto-namespaces`. */
export function annotations(values: Readonly<Record<string, string | null>>): Record<string, string> {
  const names = Object.entries(values).map(([name, value]) => {
    const isShort = name === 'allowed' || name === 'auto' || /^(allowed|auto)-namespaces/.test(name);
    const whole = name === 'auto' ? 'reflection-auto-enabled' : isShort ? `reflection-${name}` : name;
    return [name.includes('/') ? name : `${PREFIX}/${whole}`, value as string] as const;
  });
  return Object.fromEntries(names);
}

/** The annotations of a source that is mirrored into namespaces of this list. */
export function autoInto(list: string, more: Texts = {}): Texts {
  return { allowed: 'true', auto: 'true', 'auto-namespaces': list, ...more };
}

export function mark(object: Json, name: string): string | undefined {
  return annotation(object, name, PREFIX);
}

export class ReflectorScene extends AnnotatedScene {
  protected override readonly command: string = 'reflector';

  protected override annotations(given: Readonly<Record<string, string | null>>): Record<string, string> {
    return annotations(given);
  }
}
