/**
 * The loop of rules: evaluates each changed rule and puts its claims into the claim book. It has two queues:
 *
 *   rules        evaluates rules; a long evaluation pauses, so that others go on meanwhile
 *   finalizers   writes missing finalizers; the write is enqueued before the targets, which do not wait for it
 *
 * A rule is *outdated* from its change until its claims are in the book. Until then none of its copies counts as an
 * orphan, and no copy that it selects.
 */
import { setImmediate } from 'node:timers/promises';

import { orAborted } from '../../runtime/abort.ts';
import { KeyedQueue, type KeyedQueueOptions, type StopOptions } from '../../runtime/queue/keyed-queue.ts';
import { systemClock } from '../../runtime/clock.ts';
import { pause } from '../../runtime/pause.ts';
import type { Claims, ClaimsChange } from '../book/claims.ts';
import { type Cause, failureOf, sameCause } from '../model/cause.ts';
import { controllerOf, namespaceOf, type ResourceKey, type RuleKey } from '../model/keys.ts';
import type { NamedQueue } from './controller.ts';
import type { Life } from './life/rule-life.ts';

/** Evaluations share the slices of `pause`. So if rules of one namespace take long, those of seven others still run. */
const RULE_WORKERS = { concurrency: 8, share: 1 };
/**
 * The targets do not wait longer than this for the first evaluations, ms: a fixed time, and a time for each rule, of which
 * most take less than 1 ms. Only patterns that are made to be slow take longer.
 */
const START_MS = 10_000;
const START_MS_EACH = 5;
const FINALIZER_CONCURRENCY = 8;

export interface RuleLoopOptions extends Omit<KeyedQueueOptions<RuleKey>, 'name' | 'groupOf' | 'onError'> {
  readonly claims: Claims;
  /** As `KeyedQueueOptions.onError`. @returns whether the error is reported to users */
  readonly onError: (...failure: Parameters<KeyedQueueOptions<RuleKey>['onError']>) => boolean;
  /** Called when the claims of a rule were put into the book. */
  readonly onEvaluated: (rule: RuleKey, change: ClaimsChange) => void;
  /** Called when `failureOf` for this rule has changed. */
  readonly onFailure: (rule: RuleKey) => void;
}

export class RuleLoop {
  readonly #options: RuleLoopOptions;
  readonly #lives = new Map<string, Life>();
  readonly #rules: KeyedQueue<RuleKey>;
  readonly #finalizers: KeyedQueue<RuleKey>;
  /** Rules that may have changed after their last evaluation, so that their claims may be incomplete. */
  readonly #changed = new Set<RuleKey>();
  readonly #evaluating = new Set<RuleKey>();
  /** Rules that wait for the lists of their controller. They hold no worker, because an API may fail for ever. */
  readonly #waiting = new Map<RuleKey, Promise<void>>();
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
    this.#finalizers = new KeyedQueue({ ...common, name: 'finalizers' });
  }

  add(life: Life): void {
    this.#options.claims.add(life.rules);
    this.#lives.set(life.rules.name, life);
  }

  /** @throws Error if the rule's controller was not added */
  lifeOf(rule: RuleKey): Life {
    const life = this.#lives.get(controllerOf(rule));
    if (life === undefined) throw new Error(`no controller for the rule ${rule}`);
    return life;
  }

  get queues(): readonly NamedQueue[] {
    return [
      { name: 'rules', queue: this.#rules, pauses: true },
      { name: 'finalizers', queue: this.#finalizers },
    ];
  }

  /** Called when a rule may have changed. */
  enqueue(rule: RuleKey): void {
    this.#changed.add(rule);
    this.#rules.add(rule);
  }

  /** Whether the rule may have claims that are not in the book yet. */
  isOutdated(rule: RuleKey): boolean {
    return this.#changed.has(rule) || this.#evaluating.has(rule);
  }

  /** Whether a rule that may have claims which are not in the book yet selects the target. */
  async mayWant(target: ResourceKey): Promise<boolean> {
    for (const rules of [this.#changed, this.#evaluating])
      for (const rule of rules) {
        await pause();
        if (this.#options.claims.ruleSetOf(rule).selects?.(rule, target) !== undefined && this.isOutdated(rule))
          return true;
      }
    return false;
  }

  failureOf(rule: RuleKey): Cause | undefined {
    return this.#failures.get(rule);
  }

  get failures(): Iterable<readonly [RuleKey, Cause]> {
    return this.#failures;
  }

  /** Starts the evaluations. Settles when every rule was evaluated once, or when that takes too long. */
  async start(signal: AbortSignal): Promise<void> {
    this.#rules.start((rule, running) => this.#run(rule, running), RULE_WORKERS);
    const late = Promise.withResolvers<void>();
    const { clock = systemClock } = this.#options;
    const timer = clock.setTimeout(late.resolve, START_MS + START_MS_EACH * this.#changed.size);
    try {
      await Promise.race([this.#idle(signal), late.promise]);
    } finally {
      timer.cancel();
    }
  }

  async #idle(signal: AbortSignal): Promise<void> {
    await this.#rules.idle(signal);
    while (this.#waiting.size > 0) {
      await orAborted(Promise.all(this.#waiting.values()), signal, 'waiting for lists');
      await this.#rules.idle(signal);
    }
  }

  startFinalizers(): void {
    this.#finalizers.start((rule, running) => this.#writeFinalizer(rule, running), {
      concurrency: FINALIZER_CONCURRENCY,
    });
  }

  async stop(options: StopOptions): Promise<void> {
    await Promise.all([this.#rules, this.#finalizers].map((queue) => queue.stop(options)));
  }

  /** Evaluates a rule. */
  async #run(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const life = this.lifeOf(rule);
    const listed = life.listed(signal);
    if (!(await Promise.race([listed.then(() => true), setImmediate(false)]))) {
      // If the lists have failed, the next run reports it.
      const again = (): void => {
        this.#waiting.delete(rule);
        this.#rules.add(rule);
      };
      if (!this.#waiting.has(rule)) this.#waiting.set(rule, listed.then(again, again));
      return;
    }
    await pause();
    const change = await this.#claim(life, rule);
    if (change === undefined) return;
    // A failed write of what is due (finalizer) is reported until it succeeds, even if the evaluation succeeds.
    if (life.isDue(rule)) this.#finalizers.add(rule);
    else this.#failures.delete(rule);
    this.#options.onEvaluated(rule, change);
  }

  /**
   * Evaluates the rule and puts its claims into the book. If the rule changes meanwhile, the queue runs it again.
   * @returns `undefined`: nothing was put, because the rule changed meanwhile
   */
  async #claim({ rules }: Life, rule: RuleKey): Promise<ClaimsChange | undefined> {
    const { claims } = this.#options;
    this.#changed.delete(rule);
    this.#evaluating.add(rule);
    try {
      const evaluation = await rules.evaluate(rule, claims);
      return this.#changed.has(rule) ? claims.putOutdated(rule, evaluation) : claims.put(rule, evaluation);
    } catch (error) {
      this.#changed.add(rule);
      throw error;
    } finally {
      this.#evaluating.delete(rule);
    }
  }

  /** Writes what is due into the object of a rule. The change of the object enqueues the rule again. */
  async #writeFinalizer(rule: RuleKey, signal: AbortSignal): Promise<void> {
    await this.lifeOf(rule).write(rule, signal);
    if (this.#failures.delete(rule)) this.#options.onFailure(rule);
  }

  #noteFailure(rule: RuleKey, failure: Cause): void {
    if (sameCause(this.#failures.get(rule), failure)) return;
    this.#failures.set(rule, failure);
    this.#options.onFailure(rule);
  }
}
