/** Carries out the plan for one target: by at most one write, for the version of the target that the plan is for. */
import { isDeepStrictEqual } from 'node:util';
import { isAlreadyExists, isConflict, isImmutable, isNamespaceTerminating, isNotFound } from '../../../kube/errors.ts';
import { because, namespaceNotFound } from '../../model/cause.ts';
import { noNamespace } from '../../model/reasons.ts';
import type { Entry } from '../../book/claim-book.ts';
import type { Claims } from '../../book/claims.ts';
import { type Claim, listedIn, type Outcome } from '../../model/claim.ts';
import { Content } from '../../model/content.ts';
import { parseResourceKey, type ObjectKey, type RuleKey } from '../../model/keys.ts';
import { contentVersion, type Observed } from '../../model/observed.ts';
import { winnerOf, outcomeOf } from '../../plan/contest.ts';
import { decide, type Decision, type FactSource, plannedContent } from '../../plan/decide.ts';
import type { Facts, Remarks, WritePlan } from '../../plan/facts.ts';
import { hasOthers } from '../../plan/plan-write.ts';
import {
  recordOverwritten,
  recordWrite,
  CONTESTED,
  attemptOf,
  pauseAfterOverwritten,
  pauseBeforeWrite,
  type WriteAttempt,
} from '../../plan/repairs.ts';
import type { OnObjectChange } from '../../engine/backend.ts';
import type { Sources } from '../../engine/backends.ts';
import { isMarkedOverwritten, isOverwritten, ObjectWriter, OVERWRITTEN, withOverwrittenMark } from './object-writer.ts';
import type { Reachability } from '../watch/reachability.ts';
import type { KubeStore } from '../objects/store.ts';
import type { TargetMemory, TargetRun } from './target-memory.ts';

type WriteVerb = 'create' | 'update' | 'delete';

export interface TargetReconcilerOptions extends FactSource {
  readonly claims: FactSource['claims'] & Pick<Claims, 'versionOf'>;
  readonly store: KubeStore;
  /** Whether the other cluster can be used; `undefined`: the targets are in the home cluster. */
  readonly reachability: Reachability | undefined;
  readonly sources: Sources;
  /** Called for each change of an object that decisions depend on. */
  readonly onChange: OnObjectChange;
  /** Called after each write. `rule`: the rule that claims the target, or, for an orphan, the rule in its mark. */
  readonly onWrite: (target: ObjectKey, verb: WriteVerb, ok: boolean, rule: RuleKey | undefined) => void;
  /** Called when a claim's outcome has changed, or its target was written. */
  readonly onOutcome: (entry: Entry, wrote: boolean) => void;
  /** Called after each run of a target. @see Claims.settleUndeleted */
  readonly onTried: (target: ObjectKey, observed: Observed | undefined, outcome: Outcome | undefined) => void;
}

/** Longest wait for a namespace that is terminating or missing, ms. Usually an event of the namespace ends the wait. */
const NAMESPACE_RETRY_MS = 3000;
/** Wait before the next run if a fact about the target is not available now, ms. */
export const LATER_MS = 1000;
/** Wait before the next run of a target that changed during each attempt, ms. */
export const RACE_RETRY_MS = 200;

/** The result of a plan. `again`: the target must be decided again in the same run. */
export type ActionResult = 'again' | { readonly settle?: Settlement; readonly requeueAfterMs?: number };

export interface Settlement {
  /** `undefined`: the target is in its desired state. */
  readonly outcome: Outcome | undefined;
  readonly remarks?: Remarks | undefined;
  /** The claim for which the target was written. */
  readonly wroteFor?: Claim;
}

/** A plan with the facts that it was made from. */
interface Action<P = WritePlan> {
  readonly facts: Facts;
  readonly plan: P;
  readonly run: TargetRun;
}

type DecidedPlan = Exclude<Decision['plan'], { do: 'later' }>;

export class TargetActions {
  readonly #options: TargetReconcilerOptions;
  readonly #memory: TargetMemory;
  readonly #writer: ObjectWriter;
  /** Contents that the server has returned after a write. */
  readonly #checked = new WeakSet<Content>();

  constructor(options: TargetReconcilerOptions, memory: TargetMemory) {
    this.#options = options;
    this.#memory = memory;
    this.#writer = new ObjectWriter(options.store);
  }

  /** Does the write of the plan, if there is one. @throws the error of the API, if a retry makes sense */
  async carryOut(action: Action<DecidedPlan>): Promise<ActionResult> {
    const { plan } = action;
    switch (plan.do) {
      case 'nothing':
      case 'wait':
      case 'fail':
      case 'conflict':
        return { settle: { outcome: outcomeOf(plan), remarks: plan.remarks } };
      case 'delete':
        return await this.#delete(action);
      case 'replace':
      case 'create':
      case 'update':
        return await this.#write({ ...action, plan });
      default:
        return plan satisfies never;
    }
  }

  async #write(action: Action): Promise<ActionResult> {
    const { store, onWrite, now } = this.#options;
    const { facts, plan, run } = action;
    const { target, signal } = run;
    const { claim, desired } = plan;
    const { observed } = facts;
    const verb = observed === undefined ? 'create' : 'update';
    const attempt = attemptOf(facts, claim, this.#memory.get(target));
    const pause = this.#pause(action, attempt);
    if (pause !== undefined) return pause;
    const source = await this.#content(action);
    if (source === 'gone') return { requeueAfterMs: LATER_MS };
    if (source === 'changed') return 'again';
    if (plan.do === 'replace') return await this.#replace(action, source);
    const content = source === undefined ? undefined : await this.#merged(action, source);
    if (content === 'changed') return 'again';
    const values = desired.data === 'source' ? source : undefined;
    const wasOverwritten =
      values !== undefined && (isMarkedOverwritten(observed) || this.#memory.get(target)?.overwritten !== undefined);
    const fullResponse = wasOverwritten || (values !== undefined && !this.#checked.has(values));
    const marked = wasOverwritten ? withOverwrittenMark(desired) : desired;
    // What was read has all annotations, also those that the index does not keep.
    const known = run.lastRead?.resourceVersion === observed?.resourceVersion ? (run.lastRead ?? observed) : observed;
    using request = store.index.beginRequest(target, true);
    try {
      const written =
        known === undefined
          ? await this.#writer.create(target, marked, content ?? minimalContent(store, desired.type), signal, {
              fullResponse,
            })
          : await this.#writer.update(target, known, marked, content, signal, { fullResponse });
      const { meta, stored } = written;
      if (stored !== undefined && values !== undefined) this.#checked.add(values);
      onWrite(target, verb, true, claim.owner.key);
      // First store the response: if it shows a new object, this clears the memory of the old object.
      const kept = request.storeResponse(meta);
      const memory = this.#memory.edit(target);
      memory.cleared &&= false;
      recordWrite(attempt, memory, now());
      const { held } = facts;
      const version = contentVersion(kept);
      const immutable = desired.immutable ?? (observed !== undefined && facts.immutable === true);
      if (content !== undefined) {
        const type = stored?.type ?? desired.type ?? content.type;
        // All copies of a source share its fingerprint. The server's own is kept only if it differs.
        const isAsSent = stored === undefined || isDeepStrictEqual(stored.fingerprint, content.fingerprint);
        const { fingerprint } = isAsSent ? content : stored;
        const isWhole = desired.merged === undefined || fingerprint.digest !== content.fingerprint.digest;
        const part = isWhole ? undefined : values?.fingerprint.digest;
        this.#memory.storeContent(target, { version, fingerprint, immutable, type, part });
      } else if (observed !== undefined && held?.version === contentVersion(observed)) {
        const { fingerprint, part } = held;
        this.#memory.storeContent(target, { version, fingerprint, immutable, part });
      }
      return this.#written(action, kept, isOverwritten(written, marked, content, kept));
    } catch (error) {
      onWrite(target, verb, false, claim.owner.key);
      return await this.#recover(error, action);
    }
  }

  /**
   * The result of a write. A target with one claim is now in its desired state; with more claims it is decided again.
   * @param overwritten whether the server stored another object than Keyferry wrote
   */
  #written({ facts, plan: { claim, remarks }, run }: Action, kept: Observed, overwritten: boolean): ActionResult {
    const memory = this.#memory.edit(run.target);
    if (!overwritten) {
      memory.overwritten &&= undefined;
      const settle = { outcome: undefined, wroteFor: claim, remarks };
      const isDone = facts.entries.length === 1 && claim.mode === 'own' && !isMarkedOverwritten(kept);
      return isDone ? { settle } : { settle, requeueAfterMs: 0 };
    }
    const now = this.#options.now();
    recordOverwritten(memory, now);
    const requeueAfterMs = pauseAfterOverwritten(memory.overwritten, now);
    return { settle: { outcome: OVERWRITTEN, wroteFor: claim, remarks }, requeueAfterMs };
  }

  /** The result if the write must wait because another client or the server undid earlier writes; else `undefined`. */
  #pause({ plan: { remarks }, run }: Action, attempt: WriteAttempt): ActionResult | undefined {
    const memory = this.#memory.get(run.target);
    const pauseMs = pauseBeforeWrite(attempt, memory, this.#options.now());
    if (pauseMs <= 0) return undefined;
    const outcome = memory?.overwritten === undefined ? CONTESTED : OVERWRITTEN;
    return { settle: { outcome, remarks }, requeueAfterMs: pauseMs };
  }

  /**
   * Replaces a copy that cannot be updated (another type, immutable, made by another controller): deletes it after a dry
   * run has shown that the server accepts the new copy. A policy or quota that refuses the new copy so costs no copy.
   */
  async #replace(action: Action, content: Content | undefined): Promise<ActionResult> {
    const { store, onWrite } = this.#options;
    const { plan, run } = action;
    const { target, signal } = run;
    const { claim, desired } = plan;
    try {
      const written = content ?? minimalContent(store, desired.type);
      await this.#writer.create(target, desired, written, signal, { dryRun: true });
    } catch (error) {
      if (isNamespaceTerminating(error)) return this.#waitForNamespace(target, error);
      // The server asks policies and webhooks before it checks the name. So after AlreadyExists they accept the copy.
      if (!isAlreadyExists(error)) {
        onWrite(target, 'create', false, claim.owner.key);
        throw error;
      }
    }
    // During the dry run the rule may have changed, or may have been deleted with the policy to keep its copies.
    const { plan: planned } = await decide(target, this.#options, run, signal);
    if (planned.do !== 'replace' || planned.claim !== claim) return 'again';
    return await this.#delete(action);
  }

  /** The content to be written; `undefined`: the data stay unchanged. @see plannedContent */
  async #content({ facts, plan, run }: Action): Promise<Content | undefined | 'gone' | 'changed'> {
    const { claim, desired, withData } = plan;
    if (!withData || desired.data === 'keep') return undefined;
    if (desired.data === 'minimal') return minimalContent(this.#options.store, desired.type);
    return await plannedContent(facts, claim, this.#options.sources, run.signal);
  }

  /** The data of a target that keeps its other keys; `changed`: it is not the planned version any more. */
  async #merged({ facts, plan, run }: Action, source: Content): Promise<Content | 'changed'> {
    const { observed } = facts;
    const { merged, data } = plan.desired;
    if (merged === undefined || observed === undefined) return source;
    if (data === 'source' && !hasOthers(facts, observed, merged)) return source;
    if (run.lastContent?.version !== contentVersion(observed)) await run.read();
    const present = run.lastContent;
    if (present?.version !== contentVersion(observed)) return 'changed';
    const rest = present.without(new Set(listedIn(merged, observed)));
    const { kind } = this.#options.store;
    return data === 'source'
      ? Content.merged(kind, rest, source, source.type)
      : Content.merged(kind, source, rest, source.type);
  }

  async #delete(action: Action<DecidedPlan>): Promise<ActionResult> {
    const { facts, run } = action;
    const { target, signal } = run;
    const { store, onWrite } = this.#options;
    const { observed } = facts;
    if (observed === undefined) return {};
    const claim = winnerOf(facts)?.claim;
    const rule = claim?.owner.key ?? facts.markedBy;
    let gone: boolean;
    try {
      gone = await this.#writer.delete(target, observed, signal);
    } catch (error) {
      onWrite(target, 'delete', false, rule);
      return await this.#recover(error, action);
    }
    onWrite(target, 'delete', true, rule);
    const memory = this.#memory.edit(target);
    memory.held = undefined;
    if (store.index.find(target) === undefined) {
      // No watch follows the copy (it lacks Keyferry's label), or the watch has already reported the deletion.
      run.lastRead = null;
      memory.deleted &&= undefined;
      memory.cleared = true;
      return 'again';
    }
    memory.deleted = observed.uid;
    if (claim === undefined) return {};
    // The new copy is created now or, if a finalizer keeps the old copy, when the watch reports the deletion.
    if (gone) run.deletedUid = observed.uid;
    return 'again';
  }

  /** Handles errors after which the target is planned again. @throws every other error: then the queue backs off */
  async #recover(error: unknown, { facts, run }: Action<DecidedPlan>): Promise<ActionResult> {
    const { observed } = facts;
    if (isAlreadyExists(error) || isConflict(error)) {
      await run.read();
      return 'again';
    }
    if (observed === undefined && (isNamespaceTerminating(error) || isNotFound(error))) {
      return this.#waitForNamespace(run.target, error);
    }
    if (observed !== undefined && isNotFound(error)) {
      run.lastRead = null;
      return { requeueAfterMs: RACE_RETRY_MS };
    }
    if (observed !== undefined && isImmutable(error) && !run.cannotUpdate) {
      run.cannotUpdate = true;
      return 'again';
    }
    throw error;
  }

  /** @param error the error with which the server refused the creation */
  #waitForNamespace(target: ObjectKey, error: unknown): ActionResult {
    const { namespace } = parseResourceKey(target);
    const { store, reachability } = this.#options;
    const cluster = reachability === undefined ? undefined : store.api.cluster;
    const place = cluster === undefined ? 'the namespace' : `the namespace in the ${cluster} cluster`;
    const why = isNotFound(error)
      ? namespaceNotFound(noNamespace(namespace), cluster)
      : because('NamespaceTerminating', `namespace ${namespace} is being deleted`, `${place} is being deleted`);
    const outcome: Outcome = { state: 'waiting', for: 'namespace', ...why };
    return { settle: { outcome }, requeueAfterMs: NAMESPACE_RETRY_MS };
  }
}

function minimalContent(store: KubeStore, type: string | undefined): Content {
  return Content.ofFields(store.kind, store.kind.minimal(type ?? ''), type ?? '', '');
}
