/**
 * Tells the result to the user: as the condition `Created` where the API allows it, as an annotation, and as an event. The annotation also makes
 * ESO read again, so it is written last. Nothing is written where nothing has changed.
 */
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { KubeObject } from '../../../kube/api.ts';
import type { RuleClient } from '../../common/rules/rule-client.ts';
import { RESULT_ANNOTATION } from '../request/annotations.ts';
import type { ConditionMode, ExternalSecretRule } from '../request/external-secret.ts';
import { type Result, textOf, withCreated, withoutCreated } from './result.ts';

export interface WritesOptions {
  readonly client: RuleClient;
  /** The rule as it is stored now. */
  readonly latest: (key: RuleKey) => ExternalSecretRule | undefined;
  readonly recordEvent: (rule: ExternalSecretRule, result: Result) => void;
}

export class Writes {
  readonly #options: WritesOptions;
  /** The last event of each rule. */
  readonly #recorded = new Map<RuleKey, string>();

  constructor(options: WritesOptions) {
    this.#options = options;
  }

  /** @returns whether anything was written @throws ApiError: a conflict if the object has changed; ConnectionError */
  async result(
    key: RuleKey,
    rule: ExternalSecretRule,
    result: Result,
    mode: ConditionMode,
    signal: AbortSignal,
  ): Promise<boolean> {
    // Before the writes, because they may be refused.
    this.event(key, rule, result);
    const latest = mode === 'allowed' ? await this.condition(key, rule, result, signal) : rule;
    const text = textOf(result);
    if (latest.annotations[RESULT_ANNOTATION] === text) return latest !== rule;
    const { uid, resourceVersion } = latest.metadata;
    const patch = { metadata: { uid, resourceVersion, annotations: { [RESULT_ANNOTATION]: text } } };
    await this.#options.client.patch(latest, patch, signal);
    return true;
  }

  /** Writes only the condition. @returns the rule after it */
  async condition(
    key: RuleKey,
    rule: ExternalSecretRule,
    result: Result,
    signal: AbortSignal,
  ): Promise<ExternalSecretRule> {
    const conditions = rule.conditions && withCreated(rule.conditions, result);
    return conditions === undefined ? rule : await this.#writeConditions(key, rule, conditions, signal);
  }

  /** Removes the condition `Created`. */
  async heal(key: RuleKey, rule: ExternalSecretRule, signal: AbortSignal): Promise<void> {
    if (rule.conditions !== undefined) await this.#writeConditions(key, rule, withoutCreated(rule.conditions), signal);
  }

  /** Records the event of a result once, also if the writes are repeated. */
  event(key: RuleKey, rule: ExternalSecretRule, result: Result): void {
    const text = JSON.stringify([rule.metadata.uid, textOf(result)]);
    if (this.#recorded.get(key) === text || textOf(result) === rule.annotations[RESULT_ANNOTATION]) return;
    this.#recorded.set(key, text);
    this.#options.recordEvent(rule, result);
  }

  forget(key: RuleKey): void {
    this.#recorded.delete(key);
  }

  async #writeConditions(
    key: RuleKey,
    rule: ExternalSecretRule,
    conditions: readonly object[],
    signal: AbortSignal,
  ): Promise<ExternalSecretRule> {
    const { uid, resourceVersion } = rule.metadata;
    // ESO replaces the whole list too, so the resourceVersion protects its conditions.
    const patch = { metadata: { uid, resourceVersion }, status: { conditions } };
    await this.#options.client.patchStatus(rule satisfies KubeObject, patch, signal);
    return this.#options.latest(key) ?? rule;
  }
}
