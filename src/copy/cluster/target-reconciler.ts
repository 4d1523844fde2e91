/**
 * Makes targets in a cluster true: gathers the facts about one target, lets `plan` decide, does that one write, notes the outcome.
 */
import { isAlreadyExists, isConflict, isFrozen, isNamespaceTerminating, isNotFound } from '../../kube/errors.ts';
import { isOlder } from '../../kube/resource-version.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import { type Claim, type Outcome, RELEASED, type SourceView } from '../model/claim.ts';
import type { ClaimBook, Entry } from '../plan/claim-book.ts';
import { parseResourceKey, type ResourceKey, type RuleKey } from '../model/keys.ts';
import { Content } from '../model/content.ts';
import { type Flow, flowOf } from '../plan/cycles.ts';
import { failureOf, isPassing } from '../model/failure.ts';
import { isHandOver, isOver } from '../plan/hand-over.ts';
import type { KubeStore } from './store.ts';
import { ObjectWriter } from './object-writer.ts';
import { observe, type Observed } from '../model/observed.ts';
import { outcomesOf } from '../plan/outcomes.ts';
import { isMarked, isOverwritten, OVERWRITTEN, ProofBudget, withMark } from './overwritten.ts';
import type { Contest, Facts, Need, OwnerFate, Plan, Remarks, WritePlan } from '../plan/facts.ts';
import { plan } from '../plan/plan.ts';
import { winnerOf } from '../plan/contest.ts';
import {
  afterOverwritten,
  afterWrite,
  CONTESTED,
  moveOf,
  pauseAfterOverwritten,
  pauseBefore,
} from '../plan/repairs.ts';
import { Replacements } from './replacements.ts';
import type { SourceReader } from '../sources.ts';
import { TargetMemory } from './target-memory.ts';

export type WriteVerb = 'create' | 'update' | 'delete';

export interface TargetReconcilerOptions {
  readonly store: KubeStore;
  readonly book: ClaimBook;
  readonly sources: SourceReader;
  /** Why a claim that is part of a cycle is not carried out. */
  readonly cycleOf: (claim: Claim) => SourceView | undefined;
  /** The rule whose mark on `observed` counts. */
  readonly ownerOf: (observed: Observed, target: ResourceKey) => RuleKey | undefined;
  /**
   * Looks up whether that rule is gone or does not want the target. `later`: it cannot be said yet.
   */
  readonly fateOf: (
    rule: RuleKey,
    target: ResourceKey,
    observed: Observed,
    signal: AbortSignal,
  ) => Promise<OwnerFate | 'later'>;
  /** A claim's outcome is news, or a write was done for it. */
  readonly onOutcome: (entry: Entry, wrote: boolean) => void;
  readonly onWrite: (target: ResourceKey, verb: WriteVerb, ok: boolean, claim: Claim | undefined) => void;
  /** Wall clock, ms. */
  readonly now: () => number;
}

/** More facts than these are never needed for one plan; more rounds mean that the target changes faster than we read. */
const MAX_ROUNDS = 8;
/** A namespace that is going or gone: its own event ends the wait, this is for the case that it came and went unseen. */
const NAMESPACE_RETRY_MS = 3000;
const LATER_MS = 1000;
/** A target that changes under every attempt. */
const RACE_RETRY_MS = 200;

/** Facts that one run has found out for itself. */
interface Findings {
  /** As it was read in this run; `null`: it was not there. */
  read?: Observed | null;
  /** Uid of what this run has deleted, and of which the server said that it is gone; the watch may be behind. */
  gone?: string;
  /** Of the target as it was at one version: by the next the mark may name another rule, or the copy say that it stays. */
  ownerFate?: { readonly of: string; readonly fate: OwnerFate };
  frozen?: boolean;
  takeoverFailed?: boolean;
}

export class TargetReconciler {
  readonly #options: TargetReconcilerOptions;
  readonly #writer: ObjectWriter;
  readonly #replacements: Replacements;
  readonly #memory = new TargetMemory();
  readonly #proofs: ProofBudget;

  constructor(options: TargetReconcilerOptions) {
    this.#options = options;
    this.#writer = new ObjectWriter(options.store);
    this.#proofs = new ProofBudget(options.now);
    this.#replacements = new Replacements({
      store: options.store,
      writer: this.#writer,
      onCreate: (target, ok, claim) => {
        options.onWrite(target, 'create', ok, claim);
      },
    });
  }

  /** One run of the target loop. @throws what the API answered, where it is worth trying again */
  async reconcile(target: ResourceKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const found: Findings = {};
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const facts = this.#facts(target, found);
      const decision = plan(facts);
      try {
        const result =
          decision.do === 'need'
            ? await this.#find(decision, target, facts, found, signal)
            : await this.#act(target, facts, decision, found, signal);
        if (result !== 'again') return result;
      } catch (error) {
        if (signal.aborted || found.takeoverFailed === true || !isHandOver(facts) || !isOver(error, facts)) throw error;
        // Who cannot take over what is to go does not keep it from going. The error is met again, and told, when it is gone.
        found.takeoverFailed = true;
      }
    }
    return { requeueAfterMs: RACE_RETRY_MS };
  }

  #facts(target: ResourceKey, found: Findings): Facts {
    const { store, book, sources, cycleOf, ownerOf, now } = this.#options;
    const { namespace, name } = parseResourceKey(target);
    const indexed = store.index.get(namespace, name);
    const latest = newer(indexed, found.read ?? undefined);
    const gone = latest !== undefined && latest.uid === found.gone;
    const observed = gone ? undefined : latest;
    const memory = this.#memory.get(target);
    const known = gone || store.watches.isKnown(target) || found.read === null || memory?.cleared === true;
    return {
      entries: book.on(target),
      presence: observed !== undefined ? 'present' : known ? 'absent' : 'unknown',
      observed,
      markedBy: observed === undefined ? undefined : ownerOf(observed, target),
      usedBy: book.userOf(target),
      goingAway:
        !gone &&
        memory?.deleted !== undefined &&
        (observed === undefined || memory.deleted === observed.uid) &&
        indexed !== undefined,
      viewOf: (claim) => cycleOf(claim) ?? sources.view(claim.source),
      fingerprintOf: (claim) => sources.fingerprint(claim.source),
      held: memory?.held,
      type: store.kind.typed ? memory?.type : '',
      ownerFate: found.ownerFate?.of === observed?.resourceVersion ? found.ownerFate?.fate : undefined,
      frozen: found.frozen ?? false,
      takeoverFailed: found.takeoverFailed ?? false,
      now: now(),
    };
  }

  async #find(
    need: Need,
    target: ResourceKey,
    facts: Facts,
    found: Findings,
    signal: AbortSignal,
  ): Promise<RunResult | 'again'> {
    switch (need.fact) {
      case 'source': {
        const { source } = need.claim;
        const present = source !== undefined && facts.viewOf(need.claim).state === 'present';
        const content = present ? await this.#options.sources.load(source, signal) : undefined;
        // It went while we looked; the watch will say so.
        return content === undefined ? { requeueAfterMs: LATER_MS } : 'again';
      }
      case 'target':
        await this.#read(target, found, signal);
        return 'again';
      case 'owner': {
        const { markedBy, observed } = facts;
        if (markedBy === undefined || observed === undefined) return 'again';
        const fate = await this.#options.fateOf(markedBy, target, observed, signal);
        if (fate === 'later') return { requeueAfterMs: LATER_MS };
        found.ownerFate = { of: observed.resourceVersion, fate };
        return 'again';
      }
      default:
        return need satisfies never;
    }
  }

  async #read(target: ResourceKey, found: Findings, signal: AbortSignal): Promise<void> {
    const read = await this.#options.store.read(target, signal);
    if (read === undefined) {
      found.read = null;
      return;
    }
    found.read = observe(read.object.metadata);
    found.frozen = read.immutable;
    this.#memory.hold(target, found.read.resourceVersion, read.content, read.content.type);
  }

  async #act(
    target: ResourceKey,
    facts: Facts,
    decision: Exclude<Plan, { do: 'need' }>,
    found: Findings,
    signal: AbortSignal,
  ): Promise<RunResult | undefined | 'again'> {
    const remarks = decision.do === 'delete' ? undefined : decision.remarks;
    const conflict = decision.do === 'conflict' || remarks?.own?.state === 'conflict';
    this.#follow(target, conflict || this.#goesUnseen(target, facts, decision));
    if (decision.do !== 'create' && !facts.goingAway && this.#replacements.isAway(target, facts.observed)) {
      // The rule that wanted another copy in its place cannot make it any more (the source went), or is gone itself.
      if (winnerOf(facts) === undefined) this.#replacements.forget(target);
      else if (await this.#replacements.putBack(target, undefined, signal)) return 'again';
    }
    switch (decision.do) {
      case 'nothing':
        this.#settle(facts, undefined, undefined, remarks);
        this.#tidy(target);
        return undefined;
      case 'wait':
        this.#settle(
          facts,
          { state: 'waiting', for: decision.for, reason: decision.reason, message: decision.message },
          undefined,
          remarks,
        );
        return undefined;
      case 'fail':
        this.#settle(facts, { state: 'error', reason: decision.reason, message: decision.message }, undefined, remarks);
        return undefined;
      case 'conflict':
        this.#settle(facts, { state: 'conflict', reason: 'Conflict', message: decision.message }, undefined, remarks);
        return undefined;
      case 'delete':
        return await this.#delete(target, facts, found, signal);
      case 'replace':
        return await this.#replace(target, facts, decision, found, signal);
      case 'create':
      case 'update':
        return await this.#write(target, facts, decision, found, signal);
      default:
        return decision satisfies never;
    }
  }

  async #write(
    target: ResourceKey,
    facts: Facts,
    decision: WritePlan,
    found: Findings,
    signal: AbortSignal,
  ): Promise<RunResult | undefined | 'again'> {
    const { store, onWrite, now } = this.#options;
    const { claim, desired } = decision;
    const verb = facts.observed === undefined ? 'create' : 'update';
    const move = moveOf(facts, claim, this.#memory.get(target));
    // What was deleted to be replaced had its pause before that.
    const replacing = verb === 'create' && this.#replacements.isAway(target, undefined);
    const pause = replacing ? undefined : this.#pause(target, facts, decision);
    if (pause !== undefined) return pause;
    const content = await this.#content(decision, facts, signal);
    if (content === 'gone') return { requeueAfterMs: LATER_MS };
    const { namespace, name } = parseResourceKey(target);
    const values = desired.data === 'source' ? content : undefined;
    const isDoubted =
      values !== undefined && (isMarked(facts.observed) || this.#memory.get(target)?.overwritten !== undefined);
    const proof = isDoubted || (values !== undefined && this.#proofs.isDue(values));
    const wished = isDoubted ? withMark(desired) : desired;
    using answer = store.index.expect(namespace, name);
    try {
      const written =
        facts.observed === undefined
          ? await this.#writer.create(target, wished, content ?? minimalContent(store, desired.type), signal, { proof })
          : await this.#writer.update(target, facts.observed, wished, content, signal, { proof });
      const { meta, stored } = written;
      onWrite(target, verb, true, claim);
      // Before anything is remembered: another object under the old name makes us forget what we knew of the old one.
      answer.learn(meta);
      delete this.#memory.of(target).cleared;
      afterWrite(move, this.#memory.of(target), now());
      const held = facts.held;
      const before = facts.observed;
      if (content !== undefined) {
        const type = stored?.type ?? desired.type ?? content.type;
        this.#memory.hold(target, meta.resourceVersion, stored ?? content, type);
      } else if (before !== undefined && held?.resourceVersion === before.resourceVersion) {
        this.#memory.of(target).held = { resourceVersion: meta.resourceVersion, fingerprint: held.fingerprint };
      }
      if (verb === 'create') this.#replacements.forget(target);
      return this.#written(target, facts, decision, isOverwritten(written, wished, content));
    } catch (error) {
      onWrite(target, verb, false, claim);
      // While the server has trouble the old one could not be put back either.
      if (replacing && !isPassing(error) && !isAlreadyExists(error) && !isNamespaceTerminating(error)) {
        await this.#replacements.putBack(target, error, signal);
      }
      return await this.#refused(error, target, facts, found, signal);
    }
  }

  /** A write was done. @param overwritten the server stored something else */
  #written(
    target: ResourceKey,
    facts: Facts,
    { claim, remarks }: WritePlan,
    overwritten: boolean,
  ): RunResult | undefined {
    const memory = this.#memory.of(target);
    if (!overwritten) {
      delete memory.overwritten;
      this.#settle(facts, undefined, claim, remarks);
      return undefined;
    }
    const now = this.#options.now();
    afterOverwritten(memory, now);
    this.#settle(facts, OVERWRITTEN, claim, remarks);
    return { requeueAfterMs: pauseAfterOverwritten(memory.overwritten, now) };
  }

  /** Says why a write has to wait, if another client or the server keeps undoing it. `undefined`: it need not. */
  #pause(target: ResourceKey, facts: Facts, { claim, remarks }: WritePlan): RunResult | undefined {
    const memory = this.#memory.get(target);
    const pauseMs = pauseBefore(moveOf(facts, claim, memory), memory, this.#options.now());
    if (pauseMs <= 0) return undefined;
    this.#settle(facts, memory?.overwritten === undefined ? CONTESTED : OVERWRITTEN, undefined, remarks);
    return { requeueAfterMs: pauseMs };
  }

  /** Deletes a copy in whose place another one is to be made; first it is made sure that the server would take that. */
  async #replace(
    target: ResourceKey,
    facts: Facts,
    decision: WritePlan,
    found: Findings,
    signal: AbortSignal,
  ): Promise<RunResult | undefined | 'again'> {
    const { store } = this.#options;
    const { claim, desired } = decision;
    const { observed } = facts;
    if (observed === undefined) return 'again';
    const pause = this.#pause(target, facts, decision);
    if (pause !== undefined) return pause;
    const content = await this.#content(decision, facts, signal);
    if (content === 'gone') return { requeueAfterMs: LATER_MS };
    try {
      const wanted = { claim, desired, content: content ?? minimalContent(store, desired.type) };
      const there = await this.#replacements.prepare(target, observed, wanted, signal);
      if (there?.resourceVersion !== observed.resourceVersion) {
        found.read = there;
        return 'again';
      }
    } catch (error) {
      if (isNamespaceTerminating(error)) return this.#waitForNamespace(target, facts);
      throw error;
    }
    // While the server was asked, the rule may have changed, or gone and retained its copies.
    const planned = plan(this.#facts(target, found));
    if (planned.do !== 'replace' || planned.claim !== claim) {
      this.#replacements.forget(target);
      return 'again';
    }
    // A copy that goes with its rule in any case need not come back.
    if (isHandOver(facts)) this.#replacements.forget(target);
    return await this.#delete(target, facts, found, signal);
  }

  /** `undefined`: the data stay as they are. */
  async #content(
    { claim, desired, withData }: WritePlan,
    facts: Facts,
    signal: AbortSignal,
  ): Promise<Content | undefined | 'gone'> {
    if (!withData || desired.data === 'keep') return undefined;
    if (desired.data === 'minimal') return minimalContent(this.#options.store, desired.type);
    if (claim.source === undefined || facts.viewOf(claim).state !== 'present') return 'gone';
    return (await this.#options.sources.load(claim.source, signal)) ?? 'gone';
  }

  /** The server said no: finds out why, or gives the error to the queue. */
  async #refused(
    error: unknown,
    target: ResourceKey,
    facts: Facts,
    found: Findings,
    signal: AbortSignal,
  ): Promise<RunResult | 'again'> {
    if (isAlreadyExists(error) || isConflict(error)) {
      await this.#read(target, found, signal);
      return 'again';
    }
    if (facts.observed === undefined && (isNamespaceTerminating(error) || isNotFound(error))) {
      return this.#waitForNamespace(target, facts);
    }
    if (facts.observed !== undefined && isNotFound(error)) {
      found.read = null;
      return { requeueAfterMs: RACE_RETRY_MS };
    }
    if (facts.observed !== undefined && isFrozen(error) && found.frozen !== true) {
      found.frozen = true;
      return 'again';
    }
    throw error;
  }

  #waitForNamespace(target: ResourceKey, facts: Facts): RunResult {
    const { namespace } = parseResourceKey(target);
    const message = `namespace ${namespace} is going away or gone`;
    this.#settle(facts, { state: 'waiting', for: 'target', reason: 'NamespaceTerminating', message });
    this.#replacements.forget(target);
    return { requeueAfterMs: NAMESPACE_RETRY_MS };
  }

  async #delete(
    target: ResourceKey,
    facts: Facts,
    found: Findings,
    signal: AbortSignal,
  ): Promise<RunResult | undefined | 'again'> {
    const { observed } = facts;
    if (observed === undefined) return undefined;
    const claim = winnerOf(facts)?.claim;
    let gone: boolean;
    try {
      gone = await this.#writer.delete(target, observed, signal);
    } catch (error) {
      this.#options.onWrite(target, 'delete', false, claim);
      // It was changed, so it stands: no old copy need be kept until it is to be replaced again.
      if (isConflict(error)) this.#replacements.forget(target);
      return await this.#refused(error, target, facts, found, signal);
    }
    this.#options.onWrite(target, 'delete', true, claim);
    const { namespace, name } = parseResourceKey(target);
    delete this.#memory.of(target).held;
    delete this.#memory.of(target).type;
    if (this.#options.store.index.get(namespace, name) === undefined) {
      // No watch follows it (a copy without our label), or the watch was faster than the answer.
      found.read = null;
      delete this.#memory.of(target).deleted;
      this.#memory.of(target).cleared = true;
      return 'again';
    }
    this.#memory.of(target).deleted = observed.uid;
    if (claim === undefined) return undefined;
    // Another one is to be made in its place: at once, or, where a finalizer holds the old one, when the watch says that it is gone.
    if (gone) found.gone = observed.uid;
    return 'again';
  }

  /** @see TargetWriter.flowOf */
  flowOf(claim: Claim): Flow {
    const { store, book, sources, ownerOf, now } = this.#options;
    const { target } = claim;
    const { namespace, name } = parseResourceKey(target);
    const observed = store.index.get(namespace, name);
    const markedBy = observed && ownerOf(observed, target);
    const viewOf = ({ source }: Claim): SourceView => sources.view(source);
    return flowOf(claim, observed, { entries: book.on(target), markedBy, viewOf, now: now() });
  }

  /** The object behind `target` is gone: nothing that was remembered of it holds any more. */
  left(target: ResourceKey): void {
    this.#memory.left(target);
    this.#tidy(target);
  }

  /** A write failed for good reason, again and again: says so in the outcomes. */
  failed(target: ResourceKey, error: unknown): void {
    this.#settle(this.#facts(target, {}), { state: 'error', ...failureOf(error) });
  }

  /**
   * Notes `outcome` for whoever decides the target; without one, that all is as it should be.
   * @param wroteFor the claim for which a write was done
   */
  #settle(contest: Contest, outcome: Outcome | undefined, wroteFor?: Claim, remarks?: Remarks): void {
    for (const [entry, mine] of outcomesOf(contest, outcome, remarks)) {
      // What is not, or no longer, its own is nothing to wait for, whatever another claim waits for.
      const free = entry.claim.mode === 'release' && contest.markedBy !== entry.claim.owner.key;
      const news = this.#options.book.settle(entry, free ? RELEASED : mine);
      const wrote = entry.claim === wroteFor;
      if (news || wrote) this.#options.onOutcome(entry, wrote);
    }
  }

  /** Follows a target by name as long as something that is not ours stands there, or goes from there. */
  #follow(target: ResourceKey, follow: boolean): void {
    const followed = this.#memory.get(target)?.watchedByName === true;
    if (follow === followed) return;
    if (follow) {
      this.#memory.of(target).watchedByName = true;
      this.#options.store.watches.want(target);
    } else {
      delete this.#memory.of(target).watchedByName;
      this.#options.store.watches.unwant(target);
      this.#tidy(target);
    }
  }

  /** Something that no watch but the one by name would tell of is on its way out, and its going is waited for. */
  #goesUnseen(target: ResourceKey, { observed, goingAway }: Facts, decision: Plan): boolean {
    if (decision.do !== 'wait' || !(observed?.deleting === true || goingAway)) return false;
    const { namespace, name } = parseResourceKey(target);
    return (
      this.#memory.get(target)?.watchedByName === true || this.#options.store.index.get(namespace, name) === undefined
    );
  }

  #tidy(target: ResourceKey): void {
    this.#memory.tidy(target, this.#options.book.isClaimed(target));
  }
}

function newer(indexed: Observed | undefined, read: Observed | undefined): Observed | undefined {
  if (indexed === undefined || read === undefined) return indexed ?? read;
  return isOlder(indexed.resourceVersion, read.resourceVersion) ? read : indexed;
}

function minimalContent(store: KubeStore, type: string | undefined): Content {
  return Content.ofFields(store.kind, store.kind.minimal(type ?? ''), type ?? '', '');
}
