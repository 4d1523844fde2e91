/** The annotations of emberstack/kubernetes-reflector, as its README describes them. Pure. */
import type { Annotations } from '../annotations.ts';
import { foreignReader, type ForeignSource, type Remark } from './foreign.ts';
import { EVERYWHERE, intersection, namespaceList } from './namespace-lists.ts';

const PREFIX = 'reflector.v1.k8s.emberstack.com/';
const NAMES = {
  allowed: `${PREFIX}reflection-allowed`,
  allowedNamespaces: `${PREFIX}reflection-allowed-namespaces`,
  allowedSelector: `${PREFIX}reflection-allowed-namespaces-selector`,
  auto: `${PREFIX}reflection-auto-enabled`,
  autoNamespaces: `${PREFIX}reflection-auto-namespaces`,
  autoSelector: `${PREFIX}reflection-auto-namespaces-selector`,
  /** On a copy: `<namespace>/<name>` of its source. */
  reflects: `${PREFIX}reflects`,
  /** On a copy that reflector has made. */
  autoReflects: `${PREFIX}auto-reflects`,
} as const;

export const reflector = foreignReader({
  program: 'reflector',
  image: /^(kubernetes-reflector|es\.kubernetes\.reflector)$/,
  sourceOf: ({ annotations }) => (isTrue(annotations[NAMES.allowed]) ? sourceBy(annotations) : undefined),
  copyOf: ({ annotations }) => {
    const source = annotations[NAMES.reflects];
    if (source === undefined || source === '') return undefined;
    return { mode: isTrue(annotations[NAMES.autoReflects]) ? 'push' : 'pull', source };
  },
});

function sourceBy(annotations: Annotations): ForeignSource {
  const remarks: Remark[] = [];
  const allowed = listIn(annotations, NAMES.allowedNamespaces, remarks);
  const hasAllowedSelector = isSet(annotations[NAMES.allowedSelector]);
  const isAuto = isTrue(annotations[NAMES.auto]);
  if (hasAllowedSelector || (isAuto && isSet(annotations[NAMES.autoSelector]))) {
    const name = hasAllowedSelector ? NAMES.allowedSelector : NAMES.autoSelector;
    const text = `${name}: Keyferry selects namespaces by their names, not by labels; name them in the annotation replicate-to-namespaces`;
    return { remarks: [...remarks, { verdict: 'unsupported', text }] };
  }
  const allows = allowed.includes(EVERYWHERE) ? 'all' : allowed;
  if (!isAuto) return { allows, remarks };
  const pushesTo = intersection(listIn(annotations, NAMES.autoNamespaces, remarks), allowed);
  if (pushesTo !== undefined) return { allows, pushesTo, remarks };
  const text = `${NAMES.autoNamespaces} and ${NAMES.allowedNamespaces} are different expressions; write the namespaces that both select into replicate-to-namespaces`;
  return { allows, pushesTo: [], remarks: [...remarks, { verdict: 'manual', text }] };
}

/** Without the annotation, or with an empty one, every namespace. */
function listIn(annotations: Annotations, name: string, remarks: Remark[]): readonly string[] {
  const text = annotations[name];
  if (!isSet(text)) return [EVERYWHERE];
  const { items, invalid } = namespaceList(text);
  remarks.push(...invalid.map((why) => ({ verdict: 'manual', text: `${name}: ${why}` }) as const));
  return items;
}

function isSet(text: string | undefined): text is string {
  return text !== undefined && text.trim() !== '';
}

/** As .NET parses booleans. */
function isTrue(text: string | undefined): boolean {
  return text?.trim().toLowerCase() === 'true';
}
