/** The rule set of SecretMirrors: their claims, the marks on their copies, and the policy for orphans. */
import { because, type Cause } from '../../../copy/model/cause.ts';
import {
  type Claimed,
  claimAll,
  type Owner,
  type SourceView,
  leavingClaims,
  rankOf,
} from '../../../copy/model/claim.ts';
import { parseResourceKey, resourceKey, type ResourceKey, type RuleKey } from '../../../copy/model/keys.ts';
import { CONFIG_MAP, SECRET } from '../../../copy/model/kind.ts';
import { isMarkedElsewhere, PLACE_ANNOTATION, type Observed } from '../../../copy/model/observed.ts';
import type { EngineView, Evaluation, Mark, RuleSet } from '../../../copy/model/rule-set.ts';
import { misreadAs } from '../../../runtime/text/misread-patterns.ts';
import { type NamePattern, PatternCache } from '../../../runtime/text/name-patterns.ts';
import { pause } from '../../../runtime/pause.ts';
import type { RuleScope } from '../../common/context.ts';
import { LeftOut } from '../../common/namespaces/left-out.ts';
import { selectsNow } from '../../common/namespaces/selection.ts';
import { ruleVersion } from '../../../copy/engine/life/rule-store.ts';
import { MAX_TARGETS } from '../../common/rules/rule-limits.ts';
import { type Found, MISREAD, RuleTargets } from '../../common/rules/rule-targets.ts';
import {
  MIRROR_ANNOTATIONS,
  MIRROR_DEFAULTS,
  MIRRORS_CONTROLLER,
  SECRET_MIRROR,
  type SecretMirror,
  type SecretMirrorSpec,
  type SourceType,
} from '../api.ts';
import type { MirrorStore, StoredMirror } from './mirror-store.ts';
import type { MirrorVault } from '../duties/mirror-vault.ts';
import { MirrorShape, RETAIN_ANNOTATION, RetainShape } from '../shape.ts';
import { type EffectiveSpec, effectiveSpec, type SpecOptions, SUSPENDED } from './spec.ts';
import { entryAt, sourceEntryAt } from './vault-spec.ts';

export interface MirrorRulesOptions {
  readonly mirrors: MirrorStore;
  readonly specOptions?: SpecOptions;
  readonly viewOf: (source: ResourceKey | undefined) => SourceView;
  /** The copy in the cache; `undefined`: it does not exist. Absent: no copy counts as retained before its deletion. */
  readonly observed?: (copy: ResourceKey) => Pick<Observed, 'annotations'> | undefined;
  /** `undefined` (in commands): mirrors from or to Vault claim no entries. */
  readonly vault?: Pick<MirrorVault, 'trouble' | 'use'>;
}

export class MirrorRules implements RuleSet {
  readonly name = MIRRORS_CONTROLLER;
  readonly targets: RuleTargets;
  readonly #scope: RuleScope;
  readonly #options: MirrorRulesOptions;
  readonly #patterns: PatternCache;
  #hasConfigMaps = false;
  readonly #specs = new WeakMap<SecretMirrorSpec, EffectiveSpec>();

  constructor(scope: RuleScope, options: MirrorRulesOptions) {
    this.#scope = scope;
    this.#options = options;
    this.#patterns = new PatternCache(scope.config.mirrors.regexMode);
    this.targets = new RuleTargets(scope, this.name, 'the SecretMirrors');
  }

  /** The effective spec of a mirror. It is computed once for each spec, because every namespace change needs it. */
  specOf(mirror: StoredMirror): EffectiveSpec {
    let spec = this.#specs.get(mirror.spec);
    if (spec === undefined) {
      const options = { ...this.#options.specOptions, served: this.#scope.served };
      this.#specs.set(mirror.spec, (spec = effectiveSpec(mirror, this.#patterns, options)));
    }
    return spec;
  }

  async evaluate(rule: RuleKey, view: EngineView): Promise<Evaluation | undefined> {
    const { mirrors, vault } = this.#options;
    const mirror = mirrors.get(rule);
    const isActive = mirror !== undefined && mirror.metadata.deletionTimestamp === undefined;
    if (!isActive) this.targets.leave(rule);
    vault?.use(rule, isActive ? this.specOf(mirror) : undefined);
    if (mirror === undefined) return undefined;
    const { namespace: home = '', name, creationTimestamp, uid, deletionTimestamp } = mirror.metadata;
    const spec = this.specOf(mirror);
    const { sourceType, choices } = spec;
    const title = `${SECRET_MIRROR.kind} ${home}/${name}`;
    const owner: Owner = { key: rule, title, rank: rankOf(creationTimestamp, uid) };
    const version = ruleVersion(mirror);
    const retain = spec.deletePolicy === 'retain';
    const vaultPath = sourceType === 'vault' ? (spec.sourceVault?.path ?? '') : undefined;
    const shape = new MirrorShape({ owner: `${home}/${name}`, retain, vaultPath, sourceType, choices });
    const kept = { owner, mode: 'own', source: undefined, shape: new RetainShape(`${home}/${name}`) } as const;
    const source = this.sourceOf(rule, mirror, spec);
    const keyIn = (namespace: string): ResourceKey => this.#keyOf(namespace, spec.copyName ?? '', kindOf(sourceType));
    if (deletionTimestamp !== undefined) {
      // All targets, because a copy that is being created now has no mark yet.
      const targets = Array.from(await this.#reached(spec, source, new LeftOut(home)), keyIn);
      const released = { owner, mode: 'release', source: undefined, shape } as const;
      // The source is never deleted, even if it was a copy of this mirror before.
      const selected = new Set(targets);
      const isKept = (target: ResourceKey): boolean =>
        retain || target === source || (!selected.has(target) && this.#isRetained(target));
      const claims = Array.from([...targets, ...view.ownedBy(rule)], (target): Claimed => {
        return { target, claim: isKept(target) ? kept : released };
      });
      return { owner, version, claims, sources: [] };
    }
    const sources = source === undefined ? [] : [source];
    // With such a mistake, the mirror counts as before, because its copies stay.
    const found: Partial<Found> =
      spec.halt === undefined ? await this.#find(rule, spec, source) : { refusal: because('InvalidSpec', spec.halt) };
    const { outOfReach } = found;
    const common = { owner, version, sources, outOfReach };
    const refusal = found.refusal ?? (spec.isSuspended ? SUSPENDED : undefined);
    if (refusal !== undefined) return { ...common, claims: leavingClaims(owner, view.ownedBy(rule), refusal), refusal };
    const targets = Array.from(found.targets ?? [], keyIn);
    const entry = vault && entryAt(spec.destinationLocation);
    if (entry !== undefined && source !== undefined && outOfReach?.part !== 'all') targets.push(entry);
    const sourcePlace = vault && entryAt(spec.sourceLocation);
    const claims = claimAll(targets, { owner, mode: 'own', source, sourcePlace, selection: choices.keys, shape });
    // If a copy has become the source, it may have the only data. So it stays, even if the mirror changes its source.
    if (source !== undefined && includes(view.ownedBy(rule), source)) claims.push({ target: source, claim: kept });
    if (spec.problems.length > 0) {
      // A mistake in the spec must not delete a copy. So copies that the valid part does not select are kept.
      const claimed = new Set(claims.map(({ target }) => target));
      const left = [...view.ownedBy(rule)].filter((target) => !claimed.has(target));
      claims.push(...leavingClaims(owner, left, because('InvalidSpec', 'the spec of its SecretMirror is invalid')));
    }
    return { ...common, claims };
  }

  async #find(rule: RuleKey, spec: EffectiveSpec, source: ResourceKey | undefined): Promise<Found> {
    const found = await this.targets.find(rule, {
      selection: spec.namespaces,
      find: async (leftOut) => {
        const reached = await this.#reached(spec, source, leftOut);
        if (reached.size <= MAX_TARGETS) return reached;
        const tooMany = `matches ${reached.size} namespaces; the maximum is ${MAX_TARGETS}`;
        return because('InvalidSpec', `spec.destination.namespaces: ${tooMany}`);
      },
      least: 0,
    });
    const { part } = found.outOfReach ?? {};
    if (part === 'all' || part === 'named') return found;
    // Such an exclusion lets copies into namespaces that the author means to leave out.
    for (const pattern of spec.namespaces.excluded ?? [])
      if (misreadAs(pattern.source) !== undefined && !(await this.#matchesAny(pattern)))
        return { ...found, outOfReach: MISREAD };
    return found;
  }

  async #matchesAny(pattern: NamePattern): Promise<boolean> {
    for (const name of this.#scope.namespaces.names()) {
      await pause();
      if (pattern.matches(name)) return true;
    }
    return false;
  }

  /** Whether the mirror, or an earlier one of its name, let the copy go to keep it. */
  #isRetained(copy: ResourceKey): boolean {
    return this.#options.observed?.(copy)?.annotations[RETAIN_ANNOTATION] === 'true';
  }

  /** The source of a mirror; `undefined`: the spec has no valid source. */
  sourceOf(rule: RuleKey, { metadata }: SecretMirror, spec: EffectiveSpec): ResourceKey | undefined {
    const { sourceLocation, sourceName, sourceType } = spec;
    if (sourceType === 'vault') return this.#options.vault && sourceEntryAt(sourceLocation, rule);
    return sourceName === undefined ? undefined : this.#keyOf(metadata.namespace ?? '', sourceName, kindOf(sourceType));
  }

  /** The key of an object in the cluster. */
  #keyOf(namespace: string, name: string, kind: string): ResourceKey {
    return resourceKey(this.#scope.cluster, kind, namespace, name);
  }

  selects(rule: RuleKey, object: ResourceKey): (() => boolean | undefined) | undefined {
    const mirror = this.#options.mirrors.get(rule);
    if (mirror === undefined) return undefined;
    const { source, destination } = mirror.spec ?? {};
    const { kind, namespace, name } = parseResourceKey(object);
    const wanted = destination?.name || source?.name || mirror.metadata.name;
    if (wanted !== name || kindOf(source?.type ?? MIRROR_DEFAULTS.sourceType) !== kind) return undefined;
    return () => {
      const { copyName, namespaces } = this.specOf(mirror);
      return copyName === name ? selectsNow(namespaces, namespace, this.#scope.namespaces) : undefined;
    };
  }

  markOn({ annotations }: Observed, target: ResourceKey): Mark | undefined {
    const mark = annotations[MIRROR_ANNOTATIONS.ownedBy];
    if (mark === undefined) return undefined;
    const place = parseResourceKey(target);
    // Mirrors create only Secrets and ConfigMaps in this cluster. On any other object a mark has no meaning.
    const isOfMirrors = place.kind === SECRET.kind || (place.kind === CONFIG_MAP.kind && this.#copiesConfigMaps());
    if (!isOfMirrors || place.cluster !== this.#scope.cluster) return undefined;
    if (isMarkedElsewhere(annotations, place)) return undefined;
    const [namespace, name, ...rest] = mark.split('/');
    if (!namespace || !name || rest.length > 0) return undefined;
    return { rule: this.#options.mirrors.key(namespace, name) };
  }

  /** Whether there has been a mirror of a ConfigMap. Before the first such mirror, no ConfigMap is a copy. */
  #copiesConfigMaps(): boolean {
    if (this.#hasConfigMaps) return true;
    for (const [, { spec }] of this.#options.mirrors.all()) this.#hasConfigMaps ||= spec?.source?.type === 'configmap';
    return this.#hasConfigMaps;
  }

  orphanPolicy(rule: RuleKey, observed: Observed, ruleThere: boolean): 'delete' | 'keep' {
    // The annotation on the copy decides: the mirror may be gone, or may have another deletePolicy now.
    if (observed.annotations[RETAIN_ANNOTATION] === 'true') return 'keep';
    // Without a place, the original made this copy, and may have retained it on purpose: it records nothing.
    if (!(PLACE_ANNOTATION in observed.annotations)) return 'keep';
    const mirror = ruleThere ? this.#options.mirrors.get(rule) : undefined;
    if (mirror === undefined) return 'delete';
    const { problems, deletePolicy } = this.specOf(mirror);
    return problems.length > 0 || deletePolicy === 'retain' ? 'keep' : 'delete';
  }

  problemOf(rule: RuleKey): Cause | undefined {
    const { mirrors, viewOf, vault } = this.#options;
    const mirror = mirrors.get(rule);
    if (mirror === undefined || mirror.metadata.deletionTimestamp !== undefined) return undefined;
    const spec = this.specOf(mirror);
    const [problem] = spec.problems;
    if (problem !== undefined) return because('InvalidSpec', problem);
    const { reach, namespaces } = this.#scope;
    const { namespace = '' } = mirror.metadata;
    const refused = reach.fromRefusal(namespace, namespaces.factsOf(namespace));
    if (refused !== undefined) return refused;
    const source = this.sourceOf(rule, mirror, spec);
    const view = viewOf(source);
    if (view.state === 'failed' || view.state === 'missing') return view;
    return source === undefined ? undefined : vault?.trouble(source);
  }

  /** The namespaces that get a copy: none for a destination in Vault. */
  async #reached(
    { copyName, sourceType, namespaces: selection }: EffectiveSpec,
    source: ResourceKey | undefined,
    leftOut: LeftOut,
  ): Promise<ReadonlySet<string>> {
    if (copyName === undefined) return new Set();
    const { namespaces, reach } = this.#scope;
    const own = this.#keyOf(leftOut.home, copyName, kindOf(sourceType)) === source ? leftOut.home : undefined;
    return new Set(await reach.reachedBy(selection, namespaces, leftOut, own));
  }
}

/** The kind of a mirror's copies, and of its source if this is in the cluster. */
export function kindOf(type: SourceType): string {
  return type === 'configmap' ? CONFIG_MAP.kind : SECRET.kind;
}

function includes(keys: Iterable<ResourceKey>, wanted: ResourceKey): boolean {
  for (const key of keys) if (key === wanted) return true;
  return false;
}
