/** The status of SecretMirrors, from what stands in the cluster: their own status, and the marks on copies. */
import {
  MIRROR_ANNOTATIONS,
  MIRRORS_GROUP,
  MIRRORS_SYSTEM,
  MIRRORS_VERSION,
  NEVER_SYNCED,
  SECRET_MIRROR_KIND,
  SECRET_MIRROR_PLURAL,
  type SecretMirror,
  type VaultBlock,
} from '../../controllers/mirrors/api.ts';
import { PatternCache } from '../../copy/patterns.ts';
import { COPY_LABEL, RETAIN_ANNOTATION } from '../../controllers/mirrors/shape.ts';
import { effectiveSpec, type EffectiveSpec } from '../../controllers/mirrors/spec.ts';
import type { KubeApi, ObjectMeta } from '../../kube/api.ts';
import { listAll } from '../kube-list.ts';
import { byName, type CopyStatus, type OrphanStatus, type RuleStatus, type SystemStatus } from './report.ts';

/** @param namespace of the mirrors; `undefined` for all */
export async function mirrorsStatus(
  api: KubeApi,
  namespace: string | undefined,
  signal?: AbortSignal,
): Promise<SystemStatus> {
  const scope = signal === undefined ? {} : { signal };
  const mirrors = await listAll(api, `/apis/${MIRRORS_GROUP}/${MIRRORS_VERSION}/${SECRET_MIRROR_PLURAL}`, scope);
  const labelSelector = `${COPY_LABEL}=${MIRRORS_SYSTEM}`;
  const copies = (await listAll(api, '/api/v1/secrets', { ...scope, labelSelector, metadataOnly: true })) ?? [];
  const patterns = new PatternCache('full');
  const specs = new Map<string, EffectiveSpec>();
  for (const mirror of mirrors ?? []) specs.set(nameOf(mirror.metadata), effectiveSpec(mirror, patterns));
  const byOwner = new Map<string, CopyStatus[]>();
  const orphans: OrphanStatus[] = [];
  for (const { metadata } of copies) {
    const owner = metadata.annotations?.[MIRROR_ANNOTATIONS.ownedBy] ?? '';
    const copy = copyOf(metadata);
    const reason = orphaned(metadata, specs.get(owner));
    if (reason !== undefined) orphans.push({ system: MIRRORS_SYSTEM, ...copy, owner, reason });
    else byOwner.set(owner, [...(byOwner.get(owner) ?? []), copy]);
  }
  const rules = (mirrors ?? []).map((mirror) =>
    ruleOf(mirror, specs.get(nameOf(mirror.metadata)), byOwner.get(nameOf(mirror.metadata)) ?? []),
  );
  const asked = (name: string): boolean => namespace === undefined || name === namespace;
  return {
    system: MIRRORS_SYSTEM,
    installed: mirrors !== undefined,
    rules: rules.filter((rule) => asked(rule.namespace)),
    orphans: orphans.filter(({ owner }) => asked(owner.split('/')[0] ?? '')),
  };
}

function nameOf({ namespace = '', name }: ObjectMeta): string {
  return `${namespace}/${name}`;
}

function copyOf({ namespace = '', name, annotations }: ObjectMeta): CopyStatus {
  return { kind: 'Secret', namespace, name, sourceVersion: annotations?.[MIRROR_ANNOTATIONS.parentVersion] ?? '' };
}

/** Why nobody stands behind a copy; `undefined` if its mirror does. */
function orphaned({ name, annotations }: ObjectMeta, spec: EffectiveSpec | undefined): string | undefined {
  const retained = annotations?.[RETAIN_ANNOTATION] === 'true';
  if (spec !== undefined && spec.sourceName === name) return undefined;
  if (annotations?.[MIRROR_ANNOTATIONS.ownedBy] === undefined) return 'its mark was taken off; it is left alone';
  const why =
    spec === undefined ? 'its SecretMirror is gone' : `its SecretMirror now makes copies named ${spec.sourceName}`;
  return retained ? `${why}; it stays, as deletePolicy retain said` : `${why}; it goes when Keyferry runs`;
}

function ruleOf(mirror: SecretMirror, spec: EffectiveSpec | undefined, copies: CopyStatus[]): RuleStatus {
  const { metadata, status } = mirror;
  const { namespace = '', name, generation } = metadata;
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const { lastSyncTime } = status ?? {};
  return {
    system: MIRRORS_SYSTEM,
    kind: SECRET_MIRROR_KIND,
    namespace,
    name,
    source:
      spec?.sourceType === 'vault' ? vaultPlace(spec.sourceVault) : `secret ${namespace}/${spec?.sourceName ?? name}`,
    destinations: spec?.destinationType === 'vault' ? [vaultPlace(spec.destinationVault)] : (spec?.patterns ?? []),
    ...stateOf(),
    lastSyncTime: lastSyncTime === undefined || lastSyncTime === NEVER_SYNCED ? null : lastSyncTime,
    copies: copies.toSorted(byName),
  };

  function stateOf(): Pick<RuleStatus, 'state' | 'ready' | 'reason' | 'message'> {
    const state = status?.mirrorStatus ?? 'Unknown';
    if (metadata.deletionTimestamp !== undefined) {
      // What was said before it was deleted keeps it no more.
      const heard = ready?.status === 'False' && status?.observedGeneration === generation;
      const held = heard ? `; ${ready.reason}: ${ready.message}` : '';
      const message = `since ${metadata.deletionTimestamp}${held}`;
      return { state: 'Deleting', ready: false, reason: 'Deleting', message };
    }
    if (ready === undefined) {
      return { state, ready: false, reason: 'NotSeen', message: 'Keyferry has not looked at it yet; does it run?' };
    }
    if (generation !== undefined && status?.observedGeneration !== generation) {
      return { state, ready: false, reason: 'Outdated', message: 'it was changed since Keyferry last looked at it' };
    }
    return { state, ready: ready.status === 'True', reason: ready.reason, message: ready.message };
  }
}

/** Without a user and password that the address may hold. */
export function vaultPlace(block: VaultBlock | undefined): string {
  const host = URL.parse(block?.addr ?? '')?.host ?? '?';
  return `vault ${host}/${(block?.path ?? '?').replace(/^\/+/, '')}`;
}
