/**
 * Reports a result to the user: by an event, by the condition `Created` (if the CRD allows it), and by the annotation.
 * The annotation is last, because its change makes ESO read Vault again. Writes nothing if nothing has changed.
 */
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { RuleClient } from '../../../copy/engine/life/rule-client.ts';
import type { RuleStore } from '../../../copy/engine/life/rule-store.ts';
import type { Counter, MetricRegistry } from '../../../observe/metrics/metric-registry.ts';
import type { ConditionMode, ExternalSecretRule } from '../request/external-secret.ts';
import { RESULT_ANNOTATION } from '../request/settings.ts';
import { type Result, textOf, withCreated, withoutCreated } from './result.ts';

/** A run for one ExternalSecret. */
export interface Job {
  readonly key: RuleKey;
  /** The rule at the beginning of the run. */
  readonly rule: ExternalSecretRule;
  readonly signal: AbortSignal;
}

export interface WritesOptions {
  readonly client: RuleClient;
  readonly store: Pick<RuleStore<ExternalSecretRule>, 'get' | 'storeResponse'>;
  readonly mode: () => ConditionMode;
  readonly recordEvent: (rule: ExternalSecretRule, result: Result) => void;
  readonly registry: MetricRegistry;
}

export class Writes {
  readonly #options: WritesOptions;
  readonly #written: Counter<'reason'>;

  constructor(options: WritesOptions) {
    this.#options = options;
    const help = 'Results written to ExternalSecrets.';
    this.#written = options.registry.counter('keyferry_generator_results_total', help, ['reason']);
  }

  /** Reports a result. @throws ApiError (a conflict if the conditions have changed), ConnectionError */
  async result(job: Job, result: Result): Promise<void> {
    const latest = await this.announce(job, result);
    const text = textOf(result);
    const isWritten = latest.annotations[RESULT_ANNOTATION] === text;
    if (!isWritten) {
      // Without the resourceVersion: else a status that ESO writes after the condition would cost the annotation.
      const { uid } = latest.metadata;
      await this.#patch(job, { metadata: { uid, annotations: { [RESULT_ANNOTATION]: text } } });
    }
    if (!isWritten || latest !== job.rule) this.#written.inc({ reason: result.reason });
  }

  /**
   * Reports a result by the condition and one event. Does not change the annotation, so ESO does not read Vault again.
   * @returns the rule after the write @throws the errors of `result`
   */
  async announce(job: Job, result: Result): Promise<ExternalSecretRule> {
    const { rule } = job;
    const { recordEvent, mode } = this.#options;
    // The event is recorded first, because the server may refuse the writes. A retry only counts it again.
    if (textOf(result) !== rule.annotations[RESULT_ANNOTATION]) recordEvent(rule, result);
    const conditions = mode() === 'allowed' && rule.conditions ? withCreated(rule.conditions, result) : undefined;
    return conditions === undefined ? rule : await this.#writeConditions(job, conditions);
  }

  /** Removes the condition `Created`, because the server refuses ESO's status while it exists. */
  async heal(job: Job): Promise<void> {
    const { conditions } = job.rule;
    if (conditions !== undefined) await this.#writeConditions(job, withoutCreated(conditions));
  }

  async #writeConditions(job: Job, conditions: readonly object[]): Promise<ExternalSecretRule> {
    const { key, rule } = job;
    const { uid, resourceVersion } = rule.metadata;
    // ESO also replaces the whole list. Because of the resourceVersion, this write fails if ESO has just written.
    const patch = { metadata: { uid, resourceVersion }, status: { conditions } };
    await this.#patch(job, patch);
    return this.#options.store.get(key) ?? rule;
  }

  async #patch({ key, signal }: Job, patch: object): Promise<void> {
    const { client, store } = this.#options;
    store.storeResponse(await client.patch(key, patch, signal));
  }
}
