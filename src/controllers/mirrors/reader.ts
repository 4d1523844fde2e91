/** The SecretMirrors for `status` and `plan`: from their own status, and from the marks on copies. */
import {
  namespaceOf,
  parseResourceKey,
  resourceKey,
  type ResourceKey,
  type RuleKey,
  ruleName,
} from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import { isMarkedElsewhere, PLACE_ANNOTATION } from '../../copy/plan/marks.ts';
import { isRecord } from '../../kube/json.ts';
import { PatternCache } from '../common/namespaces/namespace-patterns.ts';
import type { Namespaces } from '../../copy/cluster/watch/namespaces.ts';
import type { ControllerReader, ReaderContext, RuleCollection, RuleReader } from '../common/snapshot/reader.ts';
import { heldBy, isUndecided, leftoverOf } from '../common/snapshot/leftovers.ts';
import type { Snapshot } from '../common/snapshot/snapshot.ts';
import {
  byName,
  copyStatus,
  type ControllerStatus,
  type CopyStatus,
  failingOf,
  orphanNote,
  type OrphanStatus,
  type RuleState,
  type RuleStatus,
  stateByCondition,
  STAYS,
} from '../common/snapshot/status-report.ts';
import {
  MIRROR_ANNOTATIONS,
  MIRRORS_API_VERSION,
  MIRRORS_CONTROLLER,
  MIRRORS_CRD_ADVICE,
  MIRRORS_GROUP,
  NEVER_SYNCED,
  SECRET_MIRROR_KIND,
  SECRET_MIRRORS,
  type SecretMirror,
  type VaultBlock,
} from './api.ts';
import { misreadPatterns } from '../common/namespaces/misread-patterns.ts';
import { createMirrorStore } from './rules/mirror-store.ts';
import { MirrorRules } from './rules/rule-set.ts';
import { COPY_LABEL, RETAIN_ANNOTATION } from './rules/shape.ts';
import { type EffectiveSpec } from './rules/spec.ts';

const COLLECTION: RuleCollection = {
  kind: SECRET_MIRROR_KIND,
  ...SECRET_MIRRORS,
  apiVersions: new Map([
    [MIRRORS_API_VERSION, undefined],
    // The server drops its fields, because the CRD stores v1alpha2.
    [`${MIRRORS_GROUP}/v1alpha1`, 'apiVersion v1alpha1 is not converted: use v1alpha2'],
  ]),
  notInstalled: MIRRORS_CRD_ADVICE.missing,
  specProblem,
};

export const mirrorsReader: ControllerReader = {
  collection: COLLECTION,
  open: (context) => new MirrorReader(context),
};

class MirrorReader implements RuleReader {
  readonly ruleNames = 'SecretMirrors';
  readonly ruleSet: MirrorRules;
  readonly #mirrors = createMirrorStore();
  readonly #namespaces: Namespaces;
  readonly #patterns: PatternCache;

  constructor({ api, config, inventory, onLimitChange }: ReaderContext) {
    inventory.include(COLLECTION, (item) => this.#mirrors.put(item));
    this.#namespaces = inventory.namespaces;
    this.#patterns = new PatternCache(config.mirrors.regexMode);
    this.ruleSet = new MirrorRules({
      mirrors: this.#mirrors,
      namespaces: inventory.namespaces,
      patterns: this.#patterns,
      secretKey: (namespace, name) => resourceKey(api.cluster, SECRET.kind, namespace, name),
      viewOf: () => ({ state: 'unknown' }),
      onLimitChange,
    });
  }

  *rules(): Iterable<RuleKey> {
    for (const [rule] of this.#mirrors.all()) yield rule;
  }

  ruleOf(object: ResourceKey): RuleKey | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    return kind === SECRET_MIRROR_KIND ? this.#mirrors.key(namespace, name) : undefined;
  }

  titleOf(rule: RuleKey): string {
    return `${SECRET_MIRROR_KIND} ${ruleName(rule)}`;
  }

  problemsOf(object: ResourceKey): readonly string[] {
    const rule = this.ruleOf(object);
    const mirror = rule === undefined ? undefined : this.#mirrors.get(rule);
    if (rule === undefined || mirror === undefined) return [];
    const refusal = this.ruleSet.refusalOf(rule);
    return refusal === undefined ? this.ruleSet.specs.get(mirror).problems : [refusal];
  }

  noteOn(rule: RuleKey, claims: number): string | undefined {
    const mirror = this.#mirrors.get(rule);
    if (mirror === undefined) return undefined;
    const { problems, destinationType, destinationVault, suspects } = this.ruleSet.specs.get(mirror);
    if (problems.length > 0) return undefined;
    if (destinationType === 'vault')
      return `writes ${vaultPlace(destinationVault)} if it differs; this command does not read Vault`;
    const notes = claims === 0 ? ['no other namespace matches spec.destination.namespaces'] : [];
    notes.push(...misreadPatterns(suspects, this.#namespaces.names()));
    return notes.length === 0 ? undefined : notes.join('; ');
  }

  #mirrorOf(rule: RuleKey): EffectiveSpec | undefined {
    const mirror = this.#mirrors.get(rule);
    return mirror && this.ruleSet.specs.get(mirror);
  }

  async status(snapshot: Snapshot, isIncluded: (namespace: string) => boolean): Promise<ControllerStatus> {
    const mirrors = [...this.#mirrors.all()].filter(([, { metadata }]) => isIncluded(metadata.namespace ?? ''));
    // Mirrors that are ready have no failing targets; those of the others are decided, unless no Secret may be read.
    const isDecided = ([, mirror]: [RuleKey, SecretMirror]): boolean => isFailing(snapshot, mirror);
    await snapshot.settle(mirrors.filter(isDecided).map(([rule]) => rule));
    return {
      system: MIRRORS_CONTROLLER,
      installed: snapshot.inventory.reaches.get(SECRET_MIRROR_KIND)?.extent !== 'not installed',
      rules: mirrors.map(([rule, mirror]) => this.#statusOf(snapshot, rule, mirror)),
      orphans: await this.#orphansOf(snapshot),
    };
  }

  #statusOf(snapshot: Snapshot, rule: RuleKey, mirror: SecretMirror): RuleStatus {
    const { namespace = '', name } = mirror.metadata;
    const { lastSyncTime } = mirror.status ?? {};
    const spec = this.ruleSet.specs.get(mirror);
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
      failing: isFailing(snapshot, mirror) ? failingOf(snapshot, rule) : [],
    };
  }

  /** Copies that no mirror claims. */
  async #orphansOf(snapshot: Snapshot): Promise<OrphanStatus[]> {
    const orphans: OrphanStatus[] = [];
    const add = (key: ResourceKey, owner: string, reason: string): void => {
      orphans.push({ system: MIRRORS_CONTROLLER, ...copyOf(snapshot, key), owner, reason });
    };
    const unclaimed: { readonly key: ResourceKey; readonly owner: RuleKey; readonly why: string }[] = [];
    for (const [key, observed] of snapshot.inventory.objects) {
      const { annotations, labels } = observed;
      const owner = this.ruleSet.ownerOf(observed, key);
      if (owner !== undefined) {
        const why = snapshot.claims.book.claims(owner, key) ? undefined : this.#whyUnwanted(snapshot, owner, key);
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
      if (isUndecided(snapshot, key) && this.#mirrorOf(owner)?.deletePolicy !== 'retain') {
        const leftover = leftoverOf('mirrors', why, this.#whyUnclear(owner, key) ?? heldBy(snapshot, key));
        orphans.push({ system: MIRRORS_CONTROLLER, ...copyOf(snapshot, key), owner: ruleName(owner), ...leftover });
        continue;
      }
      const fate = orphanNote(snapshot, key);
      const retained = fate === STAYS && snapshot.inventory.objects.get(key)?.annotations[RETAIN_ANNOTATION] === 'true';
      add(key, ruleName(owner), `${why}; ${fate}${retained ? ', because of deletePolicy retain' : ''}`);
    }
    return orphans;
  }

  /** Why a copy of the original that its mirror does not claim may be wanted. */
  #whyUnclear(owner: RuleKey, key: ResourceKey): string | undefined {
    const spec = this.#mirrorOf(owner);
    if (spec === undefined) return 'the original may have retained it';
    const { namespace, name } = parseResourceKey(key);
    const isFound = spec.sourceName === name && spec.matchers.some((one) => one.occursIn(namespace));
    return isFound ? 'the original searches patterns in names' : (this.ruleSet.refusalOf(owner) ?? spec.problems[0]);
  }

  /** `undefined`: unknown. */
  #whyUnwanted(snapshot: Snapshot, owner: RuleKey, key: ResourceKey): string | undefined {
    const mirror = this.#mirrors.get(owner);
    if (mirror === undefined) {
      return snapshot.inventory.isListed(SECRET_MIRROR_KIND, namespaceOf(owner))
        ? 'its SecretMirror does not exist'
        : undefined;
    }
    const spec = this.ruleSet.specs.get(mirror);
    const { namespace, name } = parseResourceKey(key);
    if (spec.sourceName !== name) return `the copies of its SecretMirror are now named ${spec.sourceName}`;
    if (spec.matchers.some((pattern) => pattern.occursIn(namespace))) {
      return 'a pattern matches only a part of the namespace name, which selects it only with --mirrors-regex=search';
    }
    return 'no longer selected by its SecretMirror';
  }
}

function copyOf(snapshot: Snapshot, key: ResourceKey): CopyStatus {
  return copyStatus(key, snapshot.inventory.objects.get(key), MIRROR_ANNOTATIONS.parentVersion);
}

function stateOf(mirror: SecretMirror): RuleState {
  return stateByCondition(mirror, 'Ready', mirror.status?.mirrorStatus ?? 'Unknown');
}

/** Whether the targets of a mirror are decided. */
function isFailing({ inventory }: Snapshot, mirror: SecretMirror): boolean {
  return !stateOf(mirror).ready && !inventory.isRefused(SECRET.kind);
}

/** Without a user and password in the address. */
function vaultPlace(block: VaultBlock | undefined): string {
  const host = URL.parse(block?.addr ?? '')?.host ?? '?';
  return `vault ${host}/${(block?.path ?? '?').replace(/^\/+/, '')}`;
}

function specProblem(spec: Readonly<Record<string, unknown>>): string | undefined {
  for (const field of ['source', 'destination']) {
    const value = spec[field] ?? {};
    if (!isRecord(value) || Array.isArray(value)) return `spec.${field} is not an object`;
    const notText = ['name', 'type', 'secretType'].find((name) => typeof (value[name] ?? '') !== 'string');
    if (notText !== undefined) return `spec.${field}.${notText} is not a string`;
  }
  const patterns: unknown = (spec as SecretMirror['spec'])?.destination?.namespaces ?? [];
  const isList = Array.isArray(patterns) && patterns.every((item) => typeof item === 'string');
  return isList ? undefined : 'spec.destination.namespaces is not a list of strings';
}
