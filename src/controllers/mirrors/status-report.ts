/** The status of SecretMirrors, from the cluster: their own status, and the marks on copies. */
import { parseResourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { isMarkedElsewhere, PLACE_ANNOTATION } from '../../copy/plan/marks.ts';
import type { Snapshot } from '../common/snapshot/snapshot.ts';
import {
  byName,
  type ControllerStatus,
  type CopyStatus,
  failingOf,
  notReady,
  orphanNote,
  type OrphanStatus,
  type RuleState,
  type RuleStatus,
  STAYS,
} from '../common/snapshot/status-report.ts';
import {
  MIRROR_ANNOTATIONS,
  MIRRORS_CONTROLLER,
  NEVER_SYNCED,
  SECRET_MIRROR_KIND,
  type SecretMirror,
  type VaultBlock,
} from './api.ts';
import { mirrorName } from './mirror-store.ts';
import type { MirrorReader } from './reader.ts';
import { COPY_LABEL, RETAIN_ANNOTATION } from './shape.ts';

/** @see RuleReader.status */
export async function mirrorsStatus(
  snapshot: Snapshot,
  reader: MirrorReader,
  isIncluded: (namespace: string) => boolean,
): Promise<ControllerStatus> {
  const mirrors = [...reader.mirrors.all()].filter(([, { metadata }]) => isIncluded(metadata.namespace ?? ''));
  // Mirrors that are ready have no failing targets; those of the others are decided.
  await snapshot.settle(mirrors.filter(([, mirror]) => !stateOf(mirror).ready).map(([rule]) => rule));
  return {
    system: MIRRORS_CONTROLLER,
    installed: snapshot.inventory.reaches.get(SECRET_MIRROR_KIND)?.extent !== 'not installed',
    rules: mirrors.map(([rule, mirror]) => ruleStatus(snapshot, reader, rule, mirror)),
    orphans: await orphansOf(snapshot, reader),
  };
}

function copyOf(snapshot: Snapshot, key: ResourceKey): CopyStatus {
  const { kind, namespace, name } = parseResourceKey(key);
  const annotations = snapshot.inventory.objects.get(key)?.annotations;
  return { kind, namespace, name, sourceVersion: annotations?.[MIRROR_ANNOTATIONS.parentVersion] ?? '' };
}

/** Copies that no mirror claims. */
async function orphansOf(snapshot: Snapshot, reader: MirrorReader): Promise<OrphanStatus[]> {
  const orphans: OrphanStatus[] = [];
  const add = (key: ResourceKey, owner: string, reason: string): void => {
    orphans.push({ system: MIRRORS_CONTROLLER, ...copyOf(snapshot, key), owner, reason });
  };
  const unclaimed: { readonly key: ResourceKey; readonly owner: RuleKey; readonly why: string }[] = [];
  for (const [key, observed] of snapshot.inventory.objects) {
    const { annotations, labels } = observed;
    const owner = reader.reconciler.ownerOf(observed, key);
    if (owner !== undefined) {
      const why = snapshot.claims.book.claims(owner, key) ? undefined : whyUnwanted(snapshot, reader, owner, key);
      if (why !== undefined) unclaimed.push({ key, owner, why });
    } else if (labels[COPY_LABEL] === MIRRORS_CONTROLLER) {
      const mark = annotations[MIRROR_ANNOTATIONS.ownedBy];
      if (mark === undefined) add(key, '', 'its owner annotation was removed; Keyferry ignores it');
      else if (isMarkedElsewhere(annotations, parseResourceKey(key))) {
        add(key, mark, `it was cloned from the copy ${annotations[PLACE_ANNOTATION]}; Keyferry ignores it`);
      }
    }
  }
  await snapshot.decide(unclaimed.map(({ key }) => key));
  for (const { key, owner, why } of unclaimed) {
    const fate = orphanNote(snapshot, key);
    const retained = fate === STAYS && snapshot.inventory.objects.get(key)?.annotations[RETAIN_ANNOTATION] === 'true';
    add(key, mirrorName(owner), `${why}; ${fate}${retained ? ', because of deletePolicy retain' : ''}`);
  }
  return orphans;
}

/** `undefined`: unknown. */
function whyUnwanted(snapshot: Snapshot, reader: MirrorReader, owner: RuleKey, key: ResourceKey): string | undefined {
  const mirror = reader.mirrors.get(owner);
  if (mirror === undefined) {
    const [home = ''] = mirrorName(owner).split('/');
    return snapshot.inventory.isListed(SECRET_MIRROR_KIND, home) ? 'its SecretMirror does not exist' : undefined;
  }
  const spec = reader.specOf(mirror);
  const { namespace, name } = parseResourceKey(key);
  if (spec.sourceName !== name) return `the copies of its SecretMirror are now named ${spec.sourceName}`;
  if (spec.matchers.some((pattern) => pattern.occursIn(namespace))) {
    return 'a pattern matches only a part of the namespace name, which selects it only with --mirrors-regex=search';
  }
  return 'no longer selected by its SecretMirror';
}

function ruleStatus(snapshot: Snapshot, reader: MirrorReader, rule: RuleKey, mirror: SecretMirror): RuleStatus {
  const { namespace = '', name } = mirror.metadata;
  const { lastSyncTime } = mirror.status ?? {};
  const spec = reader.specOf(mirror);
  const state = stateOf(mirror);
  const copies = Array.from(snapshot.claims.book.of(rule), ({ claim }) => claim.target).filter((key) => {
    const observed = snapshot.inventory.objects.get(key);
    return observed !== undefined && snapshot.claims.ownerOf(observed, key) === rule;
  });
  return {
    system: MIRRORS_CONTROLLER,
    kind: SECRET_MIRROR_KIND,
    namespace,
    name,
    source:
      spec.sourceType === 'vault' ? vaultPlace(spec.sourceVault) : `secret ${namespace}/${spec.sourceName ?? name}`,
    destinations: spec.destinationType === 'vault' ? [vaultPlace(spec.destinationVault)] : spec.patterns,
    ...state,
    lastSyncTime: lastSyncTime === undefined || lastSyncTime === NEVER_SYNCED ? null : lastSyncTime,
    copies: copies.map((key) => copyOf(snapshot, key)).toSorted(byName),
    failing: state.ready ? [] : failingOf(snapshot, rule),
  };
}

function stateOf({ metadata, status }: SecretMirror): RuleState {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  const isCurrent = metadata.generation === undefined || status?.observedGeneration === metadata.generation;
  const state = status?.mirrorStatus ?? 'Unknown';
  if (metadata.deletionTimestamp !== undefined) {
    // A status from before the deletion does not explain why it waits.
    const details = ready?.status === 'False' && isCurrent ? `; ${ready.reason}: ${ready.message}` : '';
    return notReady('Deleting', 'Deleting', `since ${metadata.deletionTimestamp}${details}`);
  }
  if (ready === undefined) return notReady(state, 'NotSeen', 'not reconciled yet; check that Keyferry is running');
  if (!isCurrent) {
    return notReady(state, 'Outdated', 'the latest change is not reconciled yet; check that Keyferry is running');
  }
  return { state, ready: ready.status === 'True', reason: ready.reason, message: ready.message };
}

/** Without a user and password in the address. */
export function vaultPlace(block: VaultBlock | undefined): string {
  const host = URL.parse(block?.addr ?? '')?.host ?? '?';
  return `vault ${host}/${(block?.path ?? '?').replace(/^\/+/, '')}`;
}
