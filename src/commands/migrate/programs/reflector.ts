/** Reads the annotations of emberstack/kubernetes-reflector, as its README describes them. Pure. */
import type { Annotations } from '../../../controllers/replicator/rules/annotations.ts';
import { NAMES } from '../../../controllers/reflector/words.ts';
import type { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { EVERYWHERE, intersection } from '../../../controllers/replicator/rules/namespace-lists.ts';
import { type Foreign, type ForeignSource, namespaceList, type Remark, selectorText } from './requests.ts';

export const reflector: Foreign = {
  program: 'reflector',
  image: /^(kubernetes-reflector|es\.kubernetes\.reflector)$/,
  sourceOf: ({ annotations }, patterns) => {
    const isMirror = isSet(annotations[NAMES.reflects]);
    // A copy that reflector made is no source. A copy that a user made may be a source that fills other objects.
    if (!isTrue(annotations[NAMES.allowed]) || (isMirror && isTrue(annotations[NAMES.autoReflects]))) return undefined;
    return sourceBy(annotations, patterns, !isMirror && isTrue(annotations[NAMES.auto]));
  },
  copyOf: ({ annotations }) => {
    const source = annotations[NAMES.reflects];
    if (!isSet(source)) return undefined;
    return { mode: isTrue(annotations[NAMES.autoReflects]) ? 'push' : 'pull', source };
  },
};

function sourceBy(annotations: Annotations, patterns: PatternCache, isAuto: boolean): ForeignSource {
  const remarks: Remark[] = [];
  const answer = isAuto ? 'toNamespaces' : 'allowedNamespaces';
  /** The items of a list annotation. If it is missing or empty: every namespace. */
  const listIn = (name: string): readonly string[] => {
    const text = annotations[name];
    if (!isSet(text)) return [EVERYWHERE];
    const { items, invalid } = namespaceList(text, patterns);
    remarks.push(...invalid.map((why) => ({ verdict: 'manual', text: `${name}: ${why}`, answer }) as const));
    return items;
  };
  const allowed = listIn(NAMES.allowedNamespaces);
  const names = isAuto ? [NAMES.allowedSelector, NAMES.autoSelector] : [NAMES.allowedSelector];
  const [name, ...others] = names.filter((one) => isSet(annotations[one]));
  if (name !== undefined) {
    const selectors = [name, ...others].map((one) => annotations[one] ?? '');
    // If the source is only pulled, the text does not advise a SecretMirror, because a SecretMirror pushes.
    const text = isAuto
      ? selectorText(name, ...selectors)
      : `${name}: Keyferry selects namespaces by their names, not by labels`;
    return { remarks: [...remarks, { verdict: 'unsupported', text, answer }] };
  }
  const allows = allowed.includes(EVERYWHERE) ? 'all' : allowed;
  if (!isAuto) return { allows, remarks };
  const pushesTo = common(patterns, listIn(NAMES.autoNamespaces), allowed);
  if (pushesTo !== undefined) return { allows, pushesTo, remarks };
  const text = `${NAMES.autoNamespaces} and ${NAMES.allowedNamespaces} are different expressions, and no single expression has the namespaces of both`;
  return { allows, pushesTo: [], remarks: [...remarks, { verdict: 'manual', text, answer }] };
}

/** The namespaces in both lists, as one list; `undefined`: no list describes them exactly. */
export function common(
  patterns: PatternCache,
  first: readonly string[],
  second: readonly string[],
): readonly string[] | undefined {
  if (first.includes(EVERYWHERE)) return second;
  if (second.includes(EVERYWHERE)) return first;
  const { items, isWhole } = intersection(patterns, first, second);
  return isWhole ? items : undefined;
}

function isSet(text: string | undefined): text is string {
  return text !== undefined && text.trim() !== '';
}

/** Parses a boolean as .NET does. */
function isTrue(text: string | undefined): boolean {
  return text?.trim().toLowerCase() === 'true';
}
