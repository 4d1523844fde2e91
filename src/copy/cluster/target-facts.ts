/** The facts about a target during one run: the index of the watches, the memory of earlier runs, and what this run has read itself. */
import { isOlder } from '../../kube/resource-version.ts';
import type { SourceView } from '../model/claim.ts';
import type { Fingerprint } from '../model/fingerprint.ts';
import { parseResourceKey, type ResourceKey, type RuleKey } from '../model/keys.ts';
import { observe, type Observed } from '../model/observed.ts';
import type { FactSource, TargetState } from '../plan/decide.ts';
import type { OwnerFate } from '../plan/facts.ts';
import type { SourceReader } from '../sources.ts';
import type { KubeStore } from './store.ts';
import type { TargetMemory } from './target-memory.ts';

export interface TargetFactsOptions {
  /** Wall clock, ms. */
  readonly now: () => number;
  readonly store: KubeStore;
  readonly sources: SourceReader;
  readonly hasNamespace: (name: string) => boolean;
  /** Reads the rule from the server: is it gone, or does it not claim the target any more? `later`: that cannot be said yet. */
  readonly fateOf: (
    rule: RuleKey,
    target: ResourceKey,
    observed: Observed,
    signal: AbortSignal,
  ) => Promise<OwnerFate | 'later'>;
}

export class TargetFacts implements FactSource {
  /** The target as this run has read it; `null`: it did not exist. */
  read: Observed | null | undefined;
  /** Uid of the object that this run deleted and the server reported as gone; the watch may be behind. */
  goneUid: string | undefined;
  /** The server refused to change the target as it is. */
  frozen = false;
  /** @see Facts.takeoverFailed */
  takeoverFailed = false;
  readonly #options: TargetFactsOptions;
  readonly #memory: TargetMemory;
  readonly #signal: AbortSignal;

  constructor(options: TargetFactsOptions, memory: TargetMemory, signal: AbortSignal) {
    this.#options = options;
    this.#memory = memory;
    this.#signal = signal;
  }

  targetState(target: ResourceKey): TargetState {
    const { store } = this.#options;
    const { namespace, name } = parseResourceKey(target);
    const indexed = store.index.get(namespace, name);
    const latest = newer(indexed, this.read ?? undefined);
    const gone = latest !== undefined && latest.uid === this.goneUid;
    const observed = gone ? undefined : latest;
    const memory = this.#memory.get(target);
    const known = gone || store.watches.isKnown(target) || this.read === null || memory?.cleared === true;
    return {
      presence: observed !== undefined ? 'present' : known ? 'absent' : 'unknown',
      observed,
      goingAway:
        !gone &&
        memory?.deleted !== undefined &&
        (observed === undefined || memory.deleted === observed.uid) &&
        indexed !== undefined,
      held: memory?.held,
      type: store.kind.typed ? memory?.type : '',
      frozen: this.frozen,
      takeoverFailed: this.takeoverFailed,
    };
  }

  now(): number {
    return this.#options.now();
  }

  hasNamespace(name: string): boolean {
    return this.#options.hasNamespace(name);
  }

  view(source: ResourceKey | undefined): SourceView {
    return this.#options.sources.view(source);
  }

  fingerprint(source: ResourceKey | undefined): Fingerprint | undefined {
    return this.#options.sources.fingerprint(source);
  }

  async readSource(source: ResourceKey): Promise<boolean> {
    // If it is gone, the watch will report it.
    return (await this.#options.sources.load(source, this.#signal)) !== undefined;
  }

  async readTarget(target: ResourceKey): Promise<boolean> {
    const read = await this.#options.store.read(target, this.#signal);
    if (read === undefined) {
      this.read = null;
      return true;
    }
    this.read = observe(read.object.metadata);
    this.frozen = read.immutable;
    this.#memory.hold(target, this.read.resourceVersion, read.content, read.content.type);
    return true;
  }

  async fateOf(rule: RuleKey, target: ResourceKey, observed: Observed): Promise<OwnerFate | 'later'> {
    return await this.#options.fateOf(rule, target, observed, this.#signal);
  }
}

function newer(indexed: Observed | undefined, read: Observed | undefined): Observed | undefined {
  if (indexed === undefined || read === undefined) return indexed ?? read;
  return isOlder(indexed.resourceVersion, read.resourceVersion) ? read : indexed;
}
