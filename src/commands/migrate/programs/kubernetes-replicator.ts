/** Reads the annotations of mittwald/kubernetes-replicator, as its README describes them. Pure. */
import type { Annotations } from '../../../controllers/replicator/rules/annotations.ts';
import type { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { parseBool } from '../../../runtime/text/go-bool.ts';
import { foreignReader } from './foreign.ts';
import type { Finding, ProgramReader } from '../program.ts';
import { type Foreign, type ForeignSource, namespaceList, type Remark, selectorText } from './requests.ts';
import { listerOf } from '../../snapshot/inventory.ts';
import type { KubeApi } from '../../../kube/api.ts';

const PREFIX = 'replicator.v1.mittwald.de/';
const NAMES = {
  from: `${PREFIX}replicate-from`,
  to: `${PREFIX}replicate-to`,
  toMatching: `${PREFIX}replicate-to-matching`,
  allowed: `${PREFIX}replication-allowed`,
  allowedNamespaces: `${PREFIX}replication-allowed-namespaces`,
  keepOwners: `${PREFIX}keep-owner-references`,
  stripLabels: `${PREFIX}strip-labels`,
  /** On every object that the program has written. It does not name the source. */
  version: `${PREFIX}replicated-from-version`,
} as const;

export const mittwald: Foreign = {
  program: 'kubernetes-replicator',
  image: /^kubernetes-replicator$/,
  sourceOf: ({ annotations, labels }, patterns) => {
    // The program does not push an object that it fills.
    const pushes = !(NAMES.from in annotations) && (NAMES.to in annotations || NAMES.toMatching in annotations);
    if (!pushes && !(NAMES.allowed in annotations)) return undefined;
    return sourceBy(annotations, patterns, pushes, Object.keys(labels).length > 0);
  },
  copyOf: ({ annotations }) => {
    const source = annotations[NAMES.from];
    if (source !== undefined) return { mode: 'pull', source };
    return NAMES.version in annotations ? { mode: 'push', source: undefined } : undefined;
  },
};

const annotated = foreignReader(mittwald);

export const kubernetesReplicator: ProgramReader = {
  ...annotated,
  find: async (context) => {
    const found = await annotated.find(context);
    const others = await otherKinds(context.api, context.signal);
    return { ...found, findings: [...found.findings, ...others] };
  },
};

function sourceBy(
  annotations: Annotations,
  patterns: PatternCache,
  pushes: boolean,
  hasLabels: boolean,
): ForeignSource {
  const remarks: Remark[] = [];
  const remark = (verdict: Remark['verdict'], text: string): number => remarks.push({ verdict, text });
  const list = (name: string, answer: Remark['answer'] & string): readonly string[] => {
    const { items, invalid } = namespaceList(withoutLeadingStar(annotations[name] ?? ''), patterns);
    for (const why of invalid) remarks.push({ verdict: 'manual', text: `${name}: ${why}`, answer });
    for (const item of items.filter((one) => isPartlyAnchored(one)))
      remarks.push({ verdict: 'difference', text: partlyAnchored(name, item), answer });
    return items;
  };
  if (pushes && NAMES.toMatching in annotations) {
    const text = selectorText(NAMES.toMatching, annotations[NAMES.toMatching] ?? '');
    remarks.push({ verdict: 'unsupported', text, answer: 'toNamespaces' });
  }
  const pushesTo = pushes && NAMES.to in annotations ? list(NAMES.to, 'toNamespaces') : undefined;
  if (pushesTo !== undefined && isTrue(annotations[NAMES.keepOwners])) {
    remark(
      'unsupported',
      `${NAMES.keepOwners}: owner references are not copied, because the owner does not exist in other namespaces`,
    );
  }
  if (pushesTo !== undefined && hasLabels && !isTrue(annotations[NAMES.stripLabels])) {
    remark('difference', 'its labels are not copied to new copies; existing copies keep their labels');
  }
  // The program requires both annotations. Keyferry needs only one of them.
  if (!isTrue(annotations[NAMES.allowed]) || !(NAMES.allowedNamespaces in annotations)) {
    return pushesTo === undefined ? { remarks } : { pushesTo, remarks };
  }
  const allows = list(NAMES.allowedNamespaces, 'allowedNamespaces');
  return pushesTo === undefined ? { allows, remarks } : { allows, pushesTo, remarks };
}

/** Writes a leading `*` as `.*`. The program reads `*-x` as all names that end with `-x`, and `*` as every name. */
function withoutLeadingStar(list: string): string {
  return list.replaceAll(/(^|,)(\s*)\*/g, '$1$2.*');
}

/** For example `a|b`: the program reads it as `^a|b$`, which matches all names that begin with `a` or end with `b`. */
function isPartlyAnchored(item: string): boolean {
  let depth = 0;
  for (const [token] of item.matchAll(/\\.|\[\^?\]?[^\]]*\]|[()|]/g)) {
    if (token === '(') depth += 1;
    else if (token === ')') depth -= 1;
    else if (token === '|' && depth === 0) return true;
  }
  return false;
}

function partlyAnchored(name: string, item: string): string {
  return `${name}: "${item}" matches whole names only; kubernetes-replicator also matches names that begin with the first alternative or end with the last`;
}

function isTrue(text: string | undefined): boolean {
  try {
    return text !== undefined && parseBool(text);
  } catch {
    // The program takes any other text for false.
    return false;
  }
}

const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const COLLECTIONS = [
  { kind: 'Role', groupPath: RBAC, plural: 'roles' },
  { kind: 'RoleBinding', groupPath: RBAC, plural: 'rolebindings' },
  { kind: 'ServiceAccount', groupPath: '/api/v1', plural: 'serviceaccounts' },
  { kind: 'Service', groupPath: '/api/v1', plural: 'services' },
] as const;
/** The annotations by which users request copies. An object without any of them is not reported. */
const REQUESTS = ['replicate-to', 'replicate-to-matching', 'replicate-from'].map((name) => `${PREFIX}${name}`);

/** Finds annotated Roles and other kinds that Keyferry does not copy. @throws MissingRight, and the errors of `api.request` */
export async function otherKinds(api: KubeApi, signal: AbortSignal | undefined): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  const lister = listerOf(api);
  for (const collection of COLLECTIONS) {
    await lister(
      collection,
      undefined,
      ({ metadata: { namespace = '', name, annotations = {} } }) => {
        const request = REQUESTS.find((one) => one in annotations);
        if (request === undefined) return;
        const text = `${request}: Keyferry copies Secrets and ConfigMaps only`;
        findings.push({ verdict: 'unsupported', object: { kind: collection.kind, namespace, name }, text });
      },
      { metadataOnly: true, signal },
    );
  }
  return findings;
}
