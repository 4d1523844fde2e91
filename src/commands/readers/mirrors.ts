/** What `status` and `plan` show of SecretMirrors: their status, their mistakes, and copies that no mirror claims. */
import { namespaceOf, parseResourceKey, type ResourceKey, type RuleKey, ruleName } from '../../copy/model/keys.ts';
import { withReason } from '../../copy/model/cause.ts';
import { COPY_LABEL, isMarkedElsewhere, type Observed, PLACE_ANNOTATION } from '../../copy/model/observed.ts';
import type { Evaluation } from '../../copy/model/rule-set.ts';
import type { Description, RuleReader, SnapshotView, Unwanted } from '../snapshot/reader.ts';
import type { Inventory, RuleCollection } from '../snapshot/inventory.ts';
import type { RuleScope } from '../../controllers/common/context.ts';
import { type Place, vaultPlace } from '../snapshot/places.ts';
import { currentCondition, stateByCondition } from '../snapshot/rule-state.ts';
import {
  MIRROR_ANNOTATIONS,
  MIRRORS_CONTROLLER,
  MIRRORS_CRD_ADVICE,
  MIRRORS_GROUP,
  NEVER_SYNCED,
  SECRET_MIRROR,
  type VaultBlock,
} from '../../controllers/mirrors/api.ts';
import { occursIn, selects } from '../../controllers/common/namespaces/selection.ts';
import { createMirrorStore } from '../../controllers/mirrors/rules/mirror-store.ts';
import { kindOf, MirrorRules } from '../../controllers/mirrors/rules/rule-set.ts';
import { RETAIN_ANNOTATION } from '../../controllers/mirrors/shape.ts';
import { type EffectiveSpec, problemsWith, SUSPENDED } from '../../controllers/mirrors/rules/spec.ts';

export const SECRET_MIRRORS: RuleCollection = {
  ...SECRET_MIRROR,
  shortName: 'sm',
  apiVersions: new Map([
    [SECRET_MIRROR.apiVersion, undefined],
    // The CRD has no conversion from v1alpha1, so the API server drops the fields that only v1alpha1 has.
    [`${MIRRORS_GROUP}/v1alpha1`, 'apiVersion v1alpha1 is not converted: use v1alpha2'],
  ]),
  notInstalled: MIRRORS_CRD_ADVICE.missing,
};

export class MirrorReader implements RuleReader {
  readonly versionMark = MIRROR_ANNOTATIONS.parentVersion;
  readonly ruleSet: MirrorRules;
  readonly #mirrors = createMirrorStore();
  readonly #inventory: Inventory;

  constructor(inventory: Inventory, scope: RuleScope) {
    inventory.include(SECRET_MIRRORS, (item) => this.#mirrors.put(item));
    this.#inventory = inventory;
    this.ruleSet = new MirrorRules(scope, {
      mirrors: this.#mirrors,
      viewOf: () => ({ state: 'unknown' }),
      observed: (copy) => inventory.objects.get(copy),
    });
  }

  describe(object: ResourceKey, { rules }: SnapshotView): Description | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    const key = this.#mirrors.key(namespace, name);
    const mirror = kind === SECRET_MIRROR.kind ? this.#mirrors.get(key) : undefined;
    if (mirror === undefined) return undefined;
    const spec = this.ruleSet.specOf(mirror);
    const evaluation = rules.get(key);
    const { mirrorStatus = 'Unknown', lastSyncTime = NEVER_SYNCED } = mirror.status ?? {};
    const isFromVault = spec.sourceType === 'vault';
    const isIntoVault = spec.destinationType === 'vault';
    const note = spec.problems.length > 0 ? undefined : this.#noteOn(spec, evaluation);
    return {
      source: isFromVault ? vaultText(spec.sourceVault) : `${spec.sourceType} ${namespace}/${spec.sourceName ?? name}`,
      ...(isFromVault && { from: entryIn(spec.sourceVault) }),
      destinations: isIntoVault ? [vaultText(spec.destinationVault)] : spec.patterns,
      elsewhere: isIntoVault ? [entryIn(spec.destinationVault)] : [],
      state: () => ({
        ...stateByCondition(mirror, 'Ready', mirrorStatus),
        lastSyncTime: lastSyncTime === NEVER_SYNCED ? null : lastSyncTime,
      }),
      condition: currentCondition(mirror, 'Ready'),
      problems: problemsWith(spec, evaluation?.refusal),
      notes: note === undefined ? [] : [note],
      exclusionOf: (place) => {
        const isExcluded = spec.namespaces.excluded?.some((pattern) => pattern.matches(place));
        return isExcluded === true ? 'excluded by spec.destination.excludedNamespaces' : undefined;
      },
    };
  }

  #noteOn(
    { isSuspended, destinationType, destinationVault, unmatched }: EffectiveSpec,
    { claims = [], outOfReach }: Partial<Evaluation> = {},
  ): string | undefined {
    if (outOfReach?.part === 'all') return withReason(outOfReach);
    if (isSuspended) return SUSPENDED.message;
    if (destinationType === 'vault')
      return `writes ${vaultText(destinationVault)} if it differs; this command does not read Vault`;
    const notes = outOfReach === undefined ? [] : [withReason(outOfReach)];
    if (claims.length === 0 && notes.length === 0) notes.push(unmatched);
    return notes.join('; ') || undefined;
  }

  unwanted(key: ResourceKey, observed: Observed, snapshot: SnapshotView): Unwanted | undefined {
    const { annotations, labels } = observed;
    const { rule } = this.ruleSet.markOn(observed, key) ?? {};
    if (rule === undefined) {
      if (labels[COPY_LABEL] !== MIRRORS_CONTROLLER) return undefined;
      const mark = annotations[MIRROR_ANNOTATIONS.ownedBy];
      if (mark === undefined && annotations[RETAIN_ANNOTATION] === 'true') return undefined;
      if (mark === undefined)
        return { owner: '', why: 'its owner annotation was removed; Keyferry ignores it', isIgnored: true };
      if (!isMarkedElsewhere(annotations, parseResourceKey(key))) return undefined;
      const why = `it was cloned from the copy ${annotations[PLACE_ANNOTATION]}; Keyferry ignores it`;
      return { owner: mark, why, isIgnored: true };
    }
    const why = snapshot.claims.book.claims(rule, key) ? undefined : this.#whyUnwanted(snapshot, rule, key);
    if (why === undefined) return undefined;
    const isRetained = annotations[RETAIN_ANNOTATION] === 'true' || this.#specOf(rule)?.deletePolicy === 'retain';
    const because = isRetained ? 'of deletePolicy retain' : this.#whyUnclear(snapshot, rule, key, observed);
    return { owner: ruleName(rule), why, because };
  }

  #specOf(rule: RuleKey): EffectiveSpec | undefined {
    const mirror = this.#mirrors.get(rule);
    return mirror && this.ruleSet.specOf(mirror);
  }

  /** Why a copy may still be needed, although no rule claims it; `undefined`: it is not. */
  #whyUnclear({ rules }: SnapshotView, owner: RuleKey, key: ResourceKey, observed: Observed): string | undefined {
    const isOriginals = !(PLACE_ANNOTATION in observed.annotations);
    const spec = this.#specOf(owner);
    if (spec === undefined) return isOriginals ? 'the original may have retained it' : undefined;
    const { namespace, name } = parseResourceKey(key);
    const isFound = spec.copyName === name && occursIn(spec.namespaces, namespace);
    if (isOriginals && isFound) return 'the original searches patterns in names';
    return rules.get(owner)?.refusal?.message ?? spec.problems[0];
  }

  /** Why the mirror in the copy's mark does not claim the copy; `undefined`: this is not known. */
  #whyUnwanted(snapshot: SnapshotView, owner: RuleKey, key: ResourceKey): string | undefined {
    const mirror = this.#mirrors.get(owner);
    if (mirror === undefined) {
      return this.#inventory.isListed(SECRET_MIRROR.kind, namespaceOf(owner))
        ? 'its SecretMirror does not exist'
        : undefined;
    }
    const spec = this.ruleSet.specOf(mirror);
    const { kind, namespace, name } = parseResourceKey(key);
    if (kind !== kindOf(spec.sourceType)) return `the copies of its SecretMirror are now ${kindOf(spec.sourceType)}s`;
    if (spec.copyName !== name) return `the copies of its SecretMirror are now named ${spec.copyName}`;
    const { names, patterns } = spec.namespaces;
    if (occursIn(spec.namespaces, namespace) && !selects({ names, patterns }, namespace)) {
      return 'a pattern matches only a part of the namespace name, which selects it only with --mirrors-regex=search';
    }
    const why = snapshot.whyNot(owner, key);
    return `no longer selected by its SecretMirror${why === undefined ? '' : ` (${why})`}`;
  }
}

/** The address of a Vault server, without user and password, and the path. */
function entryIn(block: VaultBlock | undefined): Place {
  return vaultPlace(URL.parse(block?.addr ?? '')?.host ?? '?', (block?.path ?? '?').replace(/^\/+/, ''));
}

function vaultText(block: VaultBlock | undefined): string {
  const { cluster, name } = entryIn(block);
  return `vault ${cluster}/${name}`;
}
