/** The status of SecretMirrors, from the cluster: their own status, and the marks on copies. */
import {
  MIRROR_ANNOTATIONS,
  MIRRORS_CONTROLLER,
  NEVER_SYNCED,
  SECRET_MIRROR_KIND,
  type SecretMirror,
  type VaultBlock,
} from '../../controllers/mirrors/api.ts';
import { mirrorName } from '../../controllers/mirrors/mirror-store.ts';
import { COPY_LABEL, RETAIN_ANNOTATION } from '../../controllers/mirrors/shape.ts';
import { effectiveSpec } from '../../controllers/mirrors/spec.ts';
import { type ResourceKey, parseResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { isMarkedElsewhere, PLACE_ANNOTATION } from '../../copy/plan/marks.ts';
import type { Snapshot } from '../snapshot/snapshot.ts';
import { failingOf } from './failing.ts';
import { orphanNote, STAYS } from './orphan.ts';
import {
  byName,
  type CopyStatus,
  type ControllerStatus,
  notReady,
  type OrphanStatus,
  type RuleState,
  type RuleStatus,
} from './report.ts';

/**
 * @param snapshot of the cluster
 * @param namespace of the mirrors; `undefined` for all
 * @throws the errors of `api.request`
 */
export async function mirrorsStatus(snapshot: Snapshot, namespace: string | undefined): Promise<ControllerStatus> {
  const isIncluded = (place: string): boolean => namespace === undefined || place === namespace;
  const mirrors = [...snapshot.inventory.mirrors.all()].filter(([, { metadata }]) =>
    isIncluded(metadata.namespace ?? ''),
  );
  // Mirrors that are ready have no failing targets; those of the others are decided.
  await snapshot.settle(mirrors.filter(([, mirror]) => !stateOf(mirror).ready).map(([rule]) => rule));
  return {
    system: MIRRORS_CONTROLLER,
    installed: snapshot.inventory.reach(SECRET_MIRROR_KIND).extent !== 'not installed',
    rules: mirrors.map(([rule, mirror]) => ruleOf(snapshot, rule, mirror)),
    orphans: (await orphansOf(snapshot)).filter(({ owner }) => isIncluded(owner.split('/')[0] ?? '')),
  };
}

function copyOf(snapshot: Snapshot, key: ResourceKey): CopyStatus {
  const { kind, namespace, name } = parseResourceKey(key);
  const annotations = snapshot.inventory.objects.get(key)?.annotations;
  return { kind, namespace, name, sourceVersion: annotations?.[MIRROR_ANNOTATIONS.parentVersion] ?? '' };
}

/** Copies that no mirror claims. */
async function orphansOf(snapshot: Snapshot): Promise<OrphanStatus[]> {
  const orphans: OrphanStatus[] = [];
  const add = (key: ResourceKey, owner: string, reason: string): void => {
    orphans.push({ system: MIRRORS_CONTROLLER, ...copyOf(snapshot, key), owner, reason });
  };
  const unclaimed: { readonly key: ResourceKey; readonly owner: RuleKey; readonly why: string }[] = [];
  for (const [key, observed] of snapshot.inventory.objects) {
    const { annotations, labels } = observed;
    const owner = snapshot.mirrorReconciler.ownerOf(observed, key);
    if (owner !== undefined) {
      const why = snapshot.claims.book.claims(owner, key) ? undefined : whyUnwanted(snapshot, owner, key);
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
function whyUnwanted(snapshot: Snapshot, owner: RuleKey, key: ResourceKey): string | undefined {
  const mirror = snapshot.inventory.mirrors.get(owner);
  if (mirror === undefined) {
    const [home = ''] = mirrorName(owner).split('/');
    return snapshot.inventory.isListed(SECRET_MIRROR_KIND, home) ? 'its SecretMirror does not exist' : undefined;
  }
  const spec = effectiveSpec(mirror, snapshot.patterns);
  const { namespace, name } = parseResourceKey(key);
  if (spec.sourceName !== name) return `the copies of its SecretMirror are now named ${spec.sourceName}`;
  if (spec.matchers.some((pattern) => pattern.occursIn(namespace))) {
    return 'a pattern matches only a part of the namespace name, which selects it only with --mirrors-regex=search';
  }
  return 'no longer selected by its SecretMirror';
}

function ruleOf(snapshot: Snapshot, rule: RuleKey, mirror: SecretMirror): RuleStatus {
  const { namespace = '', name } = mirror.metadata;
  const { lastSyncTime } = mirror.status ?? {};
  const spec = effectiveSpec(mirror, snapshot.patterns);
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
