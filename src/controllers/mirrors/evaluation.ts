/** Turns SecretMirrors into claims. */
import type { Steps } from '../../runtime/slices.ts';
import type { Namespaces } from '../../copy/cluster/namespaces.ts';
import { userCause } from '../../copy/model/cause.ts';
import type { Claim, Owner } from '../../copy/model/claim.ts';
import type { ResourceKey, RuleKey } from '../../copy/model/keys.ts';
import { leavingClaims } from '../../copy/model/leave-shape.ts';
import type { EngineView, Evaluation } from '../../copy/rule-reconciler.ts';
import { ruleVersion } from '../common/rule-store.ts';
import { MAX_TARGETS, TargetQuota } from '../common/target-quota.ts';
import { SECRET_MIRROR_KIND, type SecretMirror } from './api.ts';
import { MAX_LIST, type MirrorStore, type StoredMirror } from './mirror-store.ts';
import type { MirrorVault } from './mirror-vault.ts';
import { MirrorShape, RetainShape } from './shape.ts';
import type { EffectiveSpec, SpecCache } from './spec.ts';

export interface MirrorEvaluationOptions {
  readonly mirrors: MirrorStore;
  readonly namespaces: Namespaces;
  readonly specs: SpecCache;
  /** Key of a Secret in the cluster. */
  readonly secretKey: (namespace: string, name: string) => ResourceKey;
  /** Without it, mirrors from and to Vault make no claims on entries. */
  readonly vault?: MirrorVault | undefined;
  /** The limit on the copies of a mirror may have changed since it was last evaluated. */
  readonly onLimitChange?: ((rule: RuleKey) => void) | undefined;
}

export class MirrorEvaluation {
  readonly #options: MirrorEvaluationOptions;
  readonly #quota: TargetQuota;
  /** Why nothing is copied for mirrors with a valid spec: they have too many copies. */
  readonly #refusals = new Map<RuleKey, string>();

  constructor(options: MirrorEvaluationOptions) {
    this.#options = options;
    this.#quota = new TargetQuota({
      namespaces: () => options.namespaces.size,
      onChange: (rule) => options.onLimitChange?.(rule),
    });
  }

  /** The number of namespaces has changed, and with it the limit on the copies of all mirrors in one namespace. */
  recount(): void {
    this.#quota.recount();
  }

  /** Why nothing is copied for a mirror with a valid spec, as of its last evaluation. */
  refusalOf(rule: RuleKey): string | undefined {
    return this.#refusals.get(rule);
  }

  /** @see RuleReconciler.evaluate */
  *evaluate(rule: RuleKey, view: EngineView): Steps<Evaluation | undefined> {
    const { mirrors, specs, vault } = this.#options;
    const mirror = mirrors.get(rule);
    const deleting = mirror?.metadata.deletionTimestamp !== undefined;
    if (mirror === undefined || deleting) {
      vault?.release(rule);
      this.#quota.release(rule);
      this.#refusals.delete(rule);
    }
    if (mirror === undefined) return undefined;
    const { namespace: home = '', name, creationTimestamp, uid } = mirror.metadata;
    const spec = specs.get(mirror);
    const title = `${SECRET_MIRROR_KIND} ${home}/${name}`;
    const owner: Owner = { key: rule, title, rank: `${creationTimestamp} ${uid}` };
    const version = ruleVersion(mirror);
    const retain = spec.deletePolicy === 'retain';
    const vaultPath = spec.sourceType === 'vault' ? (spec.sourceVault?.path ?? '') : undefined;
    const shape = new MirrorShape({ owner: `${home}/${name}`, retain, vaultPath });
    const source = this.sourceOf(rule, mirror, spec);
    const targets = deleting && retain ? [] : yield* this.#targets(spec, source);
    if (deleting) {
      const claim = retain
        ? ({ owner, mode: 'own', source: undefined, shape: new RetainShape(`${home}/${name}`) } as const)
        : ({ owner, mode: 'release', source: undefined, shape } as const);
      const claims = Array.from([...targets, ...view.ownedBy(rule)], (target): Claim => ({ ...claim, target }));
      return { owner, version, claims, sources: [] };
    }
    vault?.use(rule, spec);
    const sources = source === undefined ? [] : [source];
    const refusal = this.#refuse(rule, mirror, owner, targets.length);
    if (refusal !== undefined) {
      const claims = leavingClaims(owner, view.ownedBy(rule), userCause('InvalidSpec', refusal));
      return { owner, version, claims, sources };
    }
    const entry = vault?.targetKeyOf(spec.destinationLocation);
    if (entry !== undefined && source !== undefined) targets.push(entry);
    const sourcePlace = vault?.targetKeyOf(spec.sourceLocation);
    // One object literal. An object made by a spread, with `target` added to it, takes half as much memory again.
    const claims = Array.from(targets, (target): Claim => ({ owner, mode: 'own', source, sourcePlace, shape, target }));
    if (spec.problems.length > 0) {
      // A mistake in the spec never deletes a copy.
      const claimed = new Set(targets);
      const left = [...view.ownedBy(rule)].filter((target) => !claimed.has(target));
      claims.push(...leavingClaims(owner, left, userCause('InvalidSpec', 'the spec of its SecretMirror is invalid')));
    }
    return { owner, version, claims, sources };
  }

  /** @returns `undefined` if the spec does not name a valid source */
  sourceOf(rule: RuleKey, { metadata }: SecretMirror, spec: EffectiveSpec): ResourceKey | undefined {
    const { secretKey, vault } = this.#options;
    if (spec.sourceType === 'vault') return vault?.sourceOf(rule, spec);
    return spec.sourceName === undefined ? undefined : secretKey(metadata.namespace ?? '', spec.sourceName);
  }

  /** The copies in namespaces. */
  *#targets(
    { sourceName, namespaces: selected }: EffectiveSpec,
    source: ResourceKey | undefined,
  ): Steps<ResourceKey[]> {
    const { namespaces, secretKey } = this.#options;
    const targets: ResourceKey[] = [];
    for (const namespace of namespaces.names()) {
      yield;
      if (sourceName === undefined || !selected.has(namespace)) continue;
      const target = secretKey(namespace, sourceName);
      if (target !== source) targets.push(target);
    }
    return targets;
  }

  /** Why nothing is copied, if the mirror has too many copies. Its present copies stay as they are. */
  #refuse(rule: RuleKey, mirror: StoredMirror, { rank }: Owner, targets: number): string | undefined {
    const { namespace: home = '' } = mirror.metadata;
    let problem = tooMuch(mirror, targets);
    if (problem !== undefined) this.#quota.release(rule);
    else if (!this.#quota.request(rule, home, rank, targets)) {
      problem = `matches ${targets} namespaces; all SecretMirrors in namespace ${home} may have ${this.#quota.limit} copies in total, and older SecretMirrors take precedence`;
    }
    if (problem === undefined) {
      this.#refusals.delete(rule);
      return undefined;
    }
    const message = `spec.destination.namespaces: ${problem}`;
    this.#refusals.set(rule, message);
    return message;
  }
}

function tooMuch({ tooLongPatterns }: StoredMirror, targets: number): string | undefined {
  if (tooLongPatterns !== undefined)
    return `the patterns have ${tooLongPatterns} characters in total; the maximum is ${MAX_LIST}`;
  if (targets <= MAX_TARGETS) return undefined;
  return `matches ${targets} namespaces; the maximum is ${MAX_TARGETS}`;
}
