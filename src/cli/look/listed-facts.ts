/** The facts about targets as lists showed them. Content is read only where metadata do not decide, for many targets at once. */
import type { SourceView } from '../../copy/model/claim.ts';
import type { Fingerprint } from '../../copy/model/fingerprint.ts';
import { parseResourceKey, type ResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Claims } from '../../copy/plan/claims.ts';
import type { FactSource, TargetState } from '../../copy/plan/decide.ts';
import type { OwnerFate } from '../../copy/plan/facts.ts';
import { Contents } from './contents.ts';
import { type Inventory, KINDS } from './inventory.ts';
import type { LookOptions } from './look.ts';

export class ListedFacts implements FactSource {
  readonly #inventory: Inventory;
  readonly #claims: Claims;
  readonly #contents: Contents;
  readonly #now: number;

  constructor({ api, now, signal }: Pick<LookOptions, 'api' | 'now' | 'signal'>, inventory: Inventory, claims: Claims) {
    this.#now = now;
    this.#inventory = inventory;
    this.#claims = claims;
    this.#contents = new Contents(api, KINDS, signal);
  }

  targetState(target: ResourceKey): TargetState {
    const observed = this.#inventory.objects.get(target);
    const read = this.#contents.of(target) ?? undefined;
    // Another version than was listed: somebody changes it at this moment.
    const held = read?.resourceVersion === observed?.resourceVersion ? read : undefined;
    return {
      presence: observed === undefined ? 'absent' : 'present',
      observed,
      goingAway: false,
      held,
      type: parseResourceKey(target).kind === SECRET.kind ? held?.fingerprint.type : '',
      frozen: held?.immutable ?? false,
    };
  }

  now(): number {
    return this.#now;
  }

  hasNamespace(name: string): boolean {
    return this.#inventory.hasNamespace(name);
  }

  view(source: ResourceKey | undefined): SourceView {
    return this.#inventory.view(source);
  }

  fingerprint(source: ResourceKey | undefined): Fingerprint | undefined {
    return source === undefined ? undefined : this.#contents.of(source)?.fingerprint;
  }

  async readSource(source: ResourceKey): Promise<boolean> {
    return await this.#contents.read(source);
  }

  async readTarget(target: ResourceKey): Promise<boolean> {
    return await this.#contents.read(target);
  }

  async fateOf(owner: RuleKey, target: ResourceKey, observed: Observed): Promise<OwnerFate | 'later'> {
    const version = this.#claims.versionOf(owner);
    return await this.#claims.fateOf(owner, target, observed, {
      isOutdated: () => version === undefined && !this.#sees(owner),
      getLive: () => Promise.resolve(version === undefined ? { state: 'gone' } : { state: 'there', version }),
    });
  }

  /** Whether the rule would be known if it existed. */
  #sees(rule: RuleKey): boolean {
    const [namespace = ''] = rule
      .slice(rule.indexOf(':') + 1)
      .split('/')
      .slice(-2);
    return ['Secret', 'ConfigMap', 'SecretMirror'].every((kind) => this.#inventory.sees(kind, namespace));
  }
}
