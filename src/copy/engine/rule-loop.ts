/**
 * The loop of rules: evaluates each changed rule and puts its claims into the claim book. It has three queues:
 *
 *   rules        evaluates rules; a rule whose evaluation takes long moves to the next queue
 *   rules heavy  evaluates these rules from then on
 *   finalizers   writes missing finalizers; the write is enqueued before the targets, which do not wait for it
 *
 * A rule is *outdated* from its change until its claims are in the book. Until then none of its copies counts as an
 * orphan.
 */
import { KeyedQueue } from '../../runtime/queue/keyed-queue.ts';
import { type Slices, TooLongError } from '../../runtime/queue/slices.ts';
import type { KeyedQueueOptions, Priority, RunResult, StopOptions } from '../../runtime/queue/keyed-queue-options.ts';
import type { Claims, ClaimsChange } from '../book/claims.ts';
import { type Cause, failureOf, sameCause } from '../model/cause.ts';
import { controllerOf, namespaceOf, type RuleKey } from '../model/keys.ts';
import type { NamedQueue, RuleReconciler } from './controller.ts';

const RULE_CONCURRENCY = 8;
/** If its evaluation takes longer than this, a rule moves to the queue of heavy rules, ms. Most take less than 1 ms. */
const HEAVY_AFTER_MS = 30;
const HEAVY_CONCURRENCY = 2;
const FINALIZER_CONCURRENCY = 8;

export interface RuleLoopOptions extends Omit<KeyedQueueOptions<RuleKey>, 'name' | 'groupOf' | 'onError'> {
  readonly claims: Claims;
  readonly slices: Slices;
  /** As `KeyedQueueOptions.onError`. @returns whether the error is reported to users */
  readonly onError: (...failure: Parameters<KeyedQueueOptions<RuleKey>['onError']>) => boolean;
  /** Called when the claims of a rule were put into the book. */
  readonly onEvaluated: (rule: RuleKey, change: ClaimsChange) => void;
  /** Called when `failureOf` for this rule has changed. */
  readonly onFailure: (rule: RuleKey) => void;
}

export class RuleLoop {
  readonly #options: RuleLoopOptions;
  readonly #reconcilers = new Map<string, RuleReconciler>();
  readonly #rules: KeyedQueue<RuleKey>;
  readonly #heavy: KeyedQueue<RuleKey>;
  readonly #finalizers: KeyedQueue<RuleKey>;
  /** Rules that may have changed after their last evaluation, so that their claims may be incomplete. */
  readonly #changed = new Set<RuleKey>();
  readonly #evaluating = new Set<RuleKey>();
  readonly #heavyKeys = new Set<RuleKey>();
  /** The present failure of each rule that fails, for its status. */
  readonly #failures = new Map<RuleKey, Cause>();

  constructor(options: RuleLoopOptions) {
    const { onError } = options;
    this.#options = options;
    const common: Omit<KeyedQueueOptions<RuleKey>, 'name'> = {
      ...options,
      groupOf: namespaceOf,
      onError: (rule, error, ...retry) => {
        if (onError(rule, error, ...retry)) this.#noteFailure(rule, failureOf(error));
      },
    };
    this.#rules = new KeyedQueue({ ...common, name: 'rules' });
    this.#heavy = new KeyedQueue({ ...common, name: 'rules heavy' });
    this.#finalizers = new KeyedQueue({ ...common, name: 'finalizers' });
  }

  addReconciler(reconciler: RuleReconciler): void {
    this.#options.claims.add(reconciler.rules);
    this.#reconcilers.set(reconciler.rules.name, reconciler);
  }

  /** @throws Error if the rule's controller was not added */
  reconcilerOf(rule: RuleKey): RuleReconciler {
    const reconciler = this.#reconcilers.get(controllerOf(rule));
    if (reconciler === undefined) throw new Error(`no controller for the rule ${rule}`);
    return reconciler;
  }

  get queues(): readonly NamedQueue[] {
    return [
      { name: 'rules', queue: this.#rules },
      { name: 'rules heavy', queue: this.#heavy },
      { name: 'finalizers', queue: this.#finalizers },
    ];
  }

  /** Called when a rule may have changed. */
  add(rule: RuleKey, priority: Priority): void {
    this.#changed.add(rule);
    (this.#heavyKeys.has(rule) ? this.#heavy : this.#rules).add(rule, { priority });
  }

  /** Whether the rule may have claims that are not in the book yet. */
  isOutdated(rule: RuleKey): boolean {
    return this.#changed.has(rule) || this.#evaluating.has(rule);
  }

  failureOf(rule: RuleKey): Cause | undefined {
    return this.#failures.get(rule);
  }

  get failures(): Iterable<readonly [RuleKey, Cause]> {
    return this.#failures;
  }

  /** Starts the evaluations. Settles when every rule except the heavy ones was evaluated. */
  async start(signal: AbortSignal): Promise<void> {
    this.#rules.start((rule, running) => this.#run(rule, running, HEAVY_AFTER_MS), { concurrency: RULE_CONCURRENCY });
    this.#heavy.start((rule, running) => this.#run(rule, running), { concurrency: HEAVY_CONCURRENCY });
    await this.#rules.idle(signal);
  }

  startFinalizers(): void {
    this.#finalizers.start((rule, running) => this.#writeFinalizer(rule, running), {
      concurrency: FINALIZER_CONCURRENCY,
    });
  }

  async stop(options: StopOptions): Promise<void> {
    await Promise.all([this.#rules, this.#heavy, this.#finalizers].map((queue) => queue.stop(options)));
  }

  /** Evaluates a rule. @param limitMs longest evaluation in this queue, ms; a rule that needs longer becomes heavy */
  async #run(rule: RuleKey, signal: AbortSignal, limitMs = Infinity): Promise<RunResult | undefined> {
    const { claims, slices, onEvaluated } = this.#options;
    if (limitMs !== Infinity && this.#heavyKeys.has(rule)) {
      this.#heavy.add(rule);
      return undefined;
    }
    const reconciler = this.reconcilerOf(rule);
    let change: ClaimsChange;
    let again: RunResult | undefined | void;
    try {
      await slices.pause();
      const steps = reconciler.rules.warmUp?.(rule);
      if (steps !== undefined) await slices.run(steps, signal, limitMs);
      again = await reconciler.listed?.(rule, signal);
      change = await this.#claim(reconciler, rule, signal, limitMs);
    } catch (error) {
      if (!(error instanceof TooLongError)) throw error;
      this.#heavyKeys.add(rule);
      this.#heavy.add(rule);
      return undefined;
    }
    if (claims.versionOf(rule) === undefined) this.#heavyKeys.delete(rule);
    // A failed preparation (finalizer) is reported until it succeeds, even if the evaluation succeeds.
    if (reconciler.needsPreparation?.(rule) === true) this.#finalizers.add(rule);
    else this.#failures.delete(rule);
    onEvaluated(rule, change);
    return again ?? undefined;
  }

  /** Evaluates the rule and puts its claims into the book. If the rule changes meanwhile, the queue runs it again. */
  async #claim(reconciler: RuleReconciler, rule: RuleKey, signal: AbortSignal, limitMs: number): Promise<ClaimsChange> {
    const { claims, slices } = this.#options;
    this.#changed.delete(rule);
    this.#evaluating.add(rule);
    try {
      const evaluation = await slices.run(reconciler.rules.evaluate(rule, claims), signal, limitMs);
      reconciler.evaluated?.(rule);
      return claims.put(rule, evaluation);
    } catch (error) {
      this.#changed.add(rule);
      throw error;
    } finally {
      this.#evaluating.delete(rule);
    }
  }

  /** Writes the finalizer of a rule. This changes the rule object, and the change enqueues the rule again. */
  async #writeFinalizer(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const reconciler = this.reconcilerOf(rule);
    if (reconciler.needsPreparation?.(rule) === true) await reconciler.prepare?.(rule, signal);
    if (this.#failures.delete(rule)) this.#options.onFailure(rule);
  }

  #noteFailure(rule: RuleKey, failure: Cause): void {
    if (sameCause(this.#failures.get(rule), failure)) return;
    this.#failures.set(rule, failure);
    this.#options.onFailure(rule);
  }
}
