/** Finds, for `keyferry migrate`, objects of KubeLB that Keyferry would treat differently. It changes none of them. */
import { someOf } from '../../../runtime/text/texts.ts';
import {
  MANAGED_BY_KUBELB,
  MANAGED_BY_LABEL,
  ORIGIN_LABELS,
  ORIGINAL_FINALIZER,
  SYNC_SECRET,
} from '../../../controllers/syncsecret/api.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import type { KubeObject } from '../../../kube/api.ts';
import { isNotFound } from '../../../kube/errors.ts';
import { listEach } from '../../../kube/list-each.ts';
import { isMark } from '../../../controllers/common/excluded-metadata.ts';
import type { Finding, ProgramFindings, MigrationContext, ProgramReader } from '../program.ts';
import { MANAGER_CONTROLLER } from '../../../controllers/syncsecret/rules/sync-secret-rule-set.ts';
import { Travel } from '../../../controllers/syncsecret/rules/travel.ts';

/** Maximum number of keys that one finding names. */
const MAX_NAMED = 10;

export const kubelbMigration: ProgramReader = {
  program: 'kubelb',
  image: /^kubelb(-ccm|-manager)?(-ee)?$/,
  // KubeLB and Keyferry use the same Lease, so only one of them writes.
  mustBeStopped: false,
  controller: MANAGER_CONTROLLER,
  find,
};

/** Why a Secret is in use: the synchronizer of KubeLB or of Keyferry reads it. `undefined`: it lacks the label. */
export function offerOf(observed: Observed | undefined): string | undefined {
  const isOffered = observed?.labels[MANAGED_BY_LABEL] === MANAGED_BY_KUBELB;
  return isOffered ? `the label ${MANAGED_BY_LABEL} offers it to the secret synchronizer` : undefined;
}

async function find({ api, config, signal }: MigrationContext): Promise<ProgramFindings> {
  const findings: Finding[] = [];
  const travel = new Travel(config.syncsecret);
  let rules = 0;
  let copies = 0;
  try {
    await listEach(
      api,
      `${SYNC_SECRET.groupPath}/${SYNC_SECRET.plural}`,
      (item) => {
        if (ORIGIN_LABELS.name in (item.metadata.labels ?? {})) copies += 1;
        else rules += 1;
        findings.push(...syncSecretFindings(item, travel));
      },
      { metadataOnly: true, signal },
    );
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  await listEach(api, '/api/v1/secrets', (item) => findings.push(...secretFindings(item)), {
    metadataOnly: true,
    signal,
  });
  return { rules, copies, findings, changes: [] };
}

function syncSecretFindings({ metadata }: KubeObject, travel: Travel): Finding[] {
  const { namespace = '', name, ownerReferences = [], labels = {}, annotations = {} } = metadata;
  const texts: string[] = [];
  if (ownerReferences.length > 0 && !(ORIGIN_LABELS.name in labels)) {
    texts.push('its owner references are not copied: KubeLB copies them, and garbage collection then deletes the copy');
  }
  for (const [what, map, travelling] of [
    ['labels', labels, travel.labels(labels)],
    ['annotations', annotations, travel.annotations(annotations)],
  ] as const) {
    // Keyferry writes marks of its own, so no finding names the origin labels of KubeLB.
    const staying = Object.keys(map).filter((key) => !(key in travelling) && !isMark(key));
    if (staying.length === 0) continue;
    texts.push(
      `its ${what} ${someOf(staying, MAX_NAMED)} are not copied; to copy them, name their keys in --propagate-${what}`,
    );
  }
  const object = { kind: SYNC_SECRET.kind, namespace, name };
  return texts.map((text) => ({ verdict: 'difference', object, text }));
}

/** Finds a Secret that has KubeLB's finalizer but lost the label `managed-by`: KubeLB never removes the finalizer. */
function secretFindings({ metadata }: KubeObject): Finding[] {
  const { namespace = '', name, finalizers = [], labels = {} } = metadata;
  if (!finalizers.includes(ORIGINAL_FINALIZER) || labels[MANAGED_BY_LABEL] === MANAGED_BY_KUBELB) return [];
  const text = `has KubeLB's finalizer ${ORIGINAL_FINALIZER} but no longer the label ${MANAGED_BY_LABEL}, so KubeLB never removes it; Keyferry's secret synchronizer does`;
  return [{ verdict: 'difference', object: { kind: 'Secret', namespace, name }, text }];
}
