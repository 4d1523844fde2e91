/** Reads the annotations and labels of config-syncer (formerly Kubed), as its guides describe them. Pure. */
import { EVERYWHERE } from '../../../controllers/replicator/rules/namespace-lists.ts';
import { type Foreign, type ForeignSource, type Remark, selectorText } from './requests.ts';

const PREFIX = 'kubed.appscode.com/';
const NAMES = {
  sync: `${PREFIX}sync`,
  contexts: `${PREFIX}sync-contexts`,
  /** Labels on a copy that name its source. The program also writes them on each source, where they name the source. */
  originName: `${PREFIX}origin.name`,
  originNamespace: `${PREFIX}origin.namespace`,
  originCluster: `${PREFIX}origin.cluster`,
} as const;

export const configSyncer: Foreign = {
  program: 'config-syncer',
  image: /^(kubed|config-syncer)$/,
  sourceOf: ({ annotations }) => {
    if (!(NAMES.sync in annotations) && !(NAMES.contexts in annotations)) return undefined;
    return sourceBy(annotations[NAMES.sync], NAMES.contexts in annotations);
  },
  copyOf: ({ labels }) => {
    const name = labels[NAMES.originName];
    const namespace = labels[NAMES.originNamespace];
    if (name === undefined || namespace === undefined) return undefined;
    return { mode: 'push', source: `${namespace}/${name}`, cluster: labels[NAMES.originCluster] ?? '' };
  },
};

/** @param selector label selector of namespaces; empty, or `true` in old versions: all; `undefined`: no namespace */
function sourceBy(selector: string | undefined, hasContexts: boolean): ForeignSource {
  const remarks: Remark[] = [];
  if (hasContexts) {
    const text = `${NAMES.contexts}: annotations of Keyferry do not copy into other clusters; a SyncSecret copies a Secret into one other cluster`;
    remarks.push({ verdict: 'unsupported', text });
  }
  if (selector === undefined) return { remarks };
  if (selector === '' || selector === 'true') return { pushesTo: [EVERYWHERE], remarks };
  const text = selectorText(NAMES.sync, selector);
  return { remarks: [...remarks, { verdict: 'unsupported', text, answer: 'toNamespaces' }] };
}
