/**
 * What manifests would make of SecretMirrors' copies: the real rules (MirrorSystem), the real claim book and the real `plan`, on
 * the cluster as it would be. Mirrors that are there already take part, because they may claim the same targets.
 */
import {
  MIRRORS_GROUP,
  MIRRORS_SYSTEM,
  MIRRORS_VERSION,
  SECRET_MIRROR_PLURAL,
  type SecretMirror,
} from '../../controllers/mirrors/api.ts';
import { mirrorName, mirrorRule, MirrorStore } from '../../controllers/mirrors/mirror-store.ts';
import { PatternCache } from '../../copy/patterns.ts';
import { COPY_LABEL } from '../../controllers/mirrors/shape.ts';
import { effectiveSpec, type EffectiveSpec } from '../../controllers/mirrors/spec.ts';
import { MirrorSystem } from '../../controllers/mirrors/system.ts';
import type { SourceView } from '../../copy/claim.ts';
import { ClaimBook } from '../../copy/claim-book.ts';
import { parseHolderKey, type HolderKey, type RuleKey } from '../../copy/keys.ts';
import { Namespaces } from '../../copy/namespaces.ts';
import { observe } from '../../copy/observed.ts';
import { type Facts, type Held, type OwnerFate, plan, winnerOf } from '../../copy/plan.ts';
import type { KubeApi } from '../../kube/api.ts';
import { listAll } from '../kube-list.ts';
import { vaultPlace } from '../status/mirrors.ts';
import { appliedMirror, type Overlay, type SecretState, viewOf } from './overlay.ts';
import { told } from './told.ts';
import type { PlannedNote, PlannedProblem, PlannedTarget } from './report.ts';

const MIRRORS_PATH = `/apis/${MIRRORS_GROUP}/${MIRRORS_VERSION}/${SECRET_MIRROR_PLURAL}`;

interface MirrorsPlan {
  readonly targets: readonly PlannedTarget[];
  readonly problems: readonly PlannedProblem[];
  readonly notes: readonly PlannedNote[];
}

/** Of a source in Vault: reading it there would take the mirror's login, and of dynamic credentials make new ones. */
const NOT_ASKED: SourceView = { state: 'missing', reason: 'Vault', message: 'what is there is not looked at' };

/** @throws ManifestError, and what `api.request` throws */
export async function planMirrors(
  api: KubeApi,
  overlay: Overlay,
  now: number,
  signal?: AbortSignal,
): Promise<MirrorsPlan> {
  const scope = signal === undefined ? {} : { signal };
  const namespaces = new Namespaces(() => undefined);
  for (const namespace of (await listAll(api, '/api/v1/namespaces', { ...scope, metadataOnly: true })) ?? []) {
    namespaces.sink.upsert(namespace, true);
  }
  const isNew = new Set(overlay.namespaces.filter((name) => !namespaces.has(name)));
  for (const name of isNew) namespaces.sink.upsert({ metadata: newMeta(name) }, false);

  const patterns = new PatternCache('full');
  const mirrors = new MirrorStore(() => undefined);
  const there = new Map<RuleKey, SecretMirror>();
  for (const mirror of (await listAll(api, MIRRORS_PATH, scope)) ?? []) {
    there.set(mirrorRule(mirror.metadata.namespace ?? '', mirror.metadata.name), mirror);
    mirrors.put(mirror);
  }
  const named = new Set<RuleKey>();
  for (const manifest of overlay.mirrors) {
    const rule = mirrorRule(manifest.namespace, manifest.object.metadata.name);
    named.add(rule);
    mirrors.put(appliedMirror(manifest, manifest.namespace, there.get(rule), now));
  }

  const owned = new Map<RuleKey, HolderKey[]>();
  const system = new MirrorSystem({
    api,
    mirrors,
    namespaces,
    patterns,
    secretKey: (namespace, name) => overlay.store.key(namespace, name),
    viewOf: () => ({ state: 'unknown' }),
    recordEvent: () => undefined,
    onSynced: () => undefined,
    onGone: () => undefined,
    synced: async () => await Promise.resolve(),
    now: () => now,
  });
  const labelSelector = `${COPY_LABEL}=${MIRRORS_SYSTEM}`;
  for (const { metadata } of (await listAll(api, '/api/v1/secrets', { ...scope, labelSelector, metadataOnly: true })) ??
    []) {
    const key = overlay.store.key(metadata.namespace ?? '', metadata.name);
    const owner = system.ownerOf(observe(metadata));
    if (owner !== undefined) owned.set(owner, [...(owned.get(owner) ?? []), key]);
  }

  const book = new ClaimBook();
  const view = { ownedBy: (rule: RuleKey): Iterable<HolderKey> => owned.get(rule) ?? [] };
  const touched = new Set<HolderKey>();
  const problems: PlannedProblem[] = [];
  const notes: PlannedNote[] = [];
  for (const [rule, mirror] of mirrors.all()) {
    const evaluation = system.evaluate(rule, view);
    if (evaluation === undefined) continue;
    book.replace(rule, evaluation.claims, evaluation.sources);
    const changed = named.has(rule) || evaluation.sources.some((source) => overlay.secrets.has(source));
    for (const { target } of evaluation.claims) {
      const { namespace } = parseHolderKey(target);
      if (changed || isNew.has(namespace) || overlay.secrets.has(target)) touched.add(target);
    }
    if (!changed) continue;
    const { title } = evaluation.owner;
    const spec = effectiveSpec(mirror, patterns);
    const note = noteOn(spec, evaluation.claims.length);
    if (note !== undefined) notes.push({ rule: title, note });
    if (!named.has(rule)) continue;
    for (const target of view.ownedBy(rule)) touched.add(target);
    for (const problem of spec.problems) problems.push({ rule: title, problem });
  }
  const targets: PlannedTarget[] = [];
  for (const target of [...touched].toSorted()) targets.push(await planTarget(target));
  return { targets, problems, notes };

  async function planTarget(target: HolderKey): Promise<PlannedTarget> {
    const { kind, namespace, name } = parseHolderKey(target);
    const entries = book.on(target);
    const state = isNew.has(namespace) ? overlay.secrets.get(target) : await overlay.secret(target, signal);
    const sources = new Map<HolderKey, SecretState | undefined>();
    for (const { claim } of entries) {
      if (claim.source !== undefined) sources.set(claim.source, await overlay.secret(claim.source, signal));
    }
    const observed = state?.observed;
    const markedBy = observed === undefined ? undefined : system.ownerOf(observed);
    const facts = (held: Held | undefined, ownerFate: OwnerFate | undefined): Facts => ({
      entries,
      presence: observed === undefined ? 'absent' : 'present',
      observed,
      markedBy,
      goingAway: false,
      viewOf: ({ source }) => (source === undefined ? NOT_ASKED : viewOf(source, sources.get(source))),
      gistOf: ({ source }) => (source === undefined ? undefined : sources.get(source)?.gist),
      held,
      type: held?.gist.type,
      ownerFate,
      frozen: held !== undefined && (state?.immutable ?? false),
      now,
    });
    let decision = plan(facts(undefined, undefined));
    let fate: OwnerFate | undefined;
    if (decision.do === 'need' && decision.fact === 'owner' && markedBy !== undefined && observed !== undefined) {
      fate = system.dispose(markedBy, observed, mirrors.get(markedBy) !== undefined);
      decision = plan(facts(undefined, fate));
    }
    if (decision.do === 'need' && decision.fact === 'target' && state !== undefined) {
      decision = plan(facts({ resourceVersion: state.observed.resourceVersion, gist: state.gist }, fate));
    }
    const rule = winnerOf(entries)?.claim.owner.title ?? titleOf(markedBy);
    return { system: MIRRORS_SYSTEM, kind, namespace, name, rule, ...told(decision, titleOf(markedBy)) };
  }
}

function noteOn({ problems, destinationType, destinationVault }: EffectiveSpec, claims: number): string | undefined {
  if (problems.length > 0) return undefined;
  if (destinationType === 'vault') return `writes ${vaultPlace(destinationVault)} if that differs; Vault is not asked`;
  return claims === 0 ? 'its patterns match no other namespace' : undefined;
}

function titleOf(rule: RuleKey | undefined): string {
  return rule === undefined ? '' : `SecretMirror ${mirrorName(rule)}`;
}

function newMeta(name: string) {
  return { name, uid: 'new', resourceVersion: '0', creationTimestamp: '' };
}
