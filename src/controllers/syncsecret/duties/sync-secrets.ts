/** The SyncSecrets that are rules of one controller: the store, and the writes of finalizers and status. */
import type { KubeApi, KubeObject } from '../../../kube/api.ts';
import type { EventInput } from '../../../kube/event-correlator.ts';
import { KeyLists } from '../../../copy/model/key-lists.ts';
import { type RuleKey, ruleName } from '../../../copy/model/keys.ts';
import type { RunResult } from '../../../runtime/queue/keyed-queue-options.ts';
import { nextCondition, sameConditions } from '../../common/rules/condition.ts';
import { RuleClient } from '../../common/rules/rule-client.ts';
import { type RuleEvent, RuleStatuses } from '../../common/rules/rule-statuses.ts';
import { RuleStore } from '../../common/rules/rule-store.ts';
import {
  ORIGINAL_FINALIZER,
  OWN_FINALIZERS,
  SYNC_SECRET_API_VERSION,
  SYNC_SECRET_FINALIZER,
  SYNC_SECRET_KIND,
  SYNCED_CONDITION,
  type SyncSecretPhase,
  type SyncSecretStatus,
} from '../api.ts';
import { SYNC_SECRET } from '../rules/kind.ts';
import { MAX_TEXT, MORE_FINALIZERS, ruleOf, ruleVersion, type SyncSecretRule } from '../rules/rule.ts';

/** The status that a SyncSecret should have: its phase and its one condition. */
export interface SyncState {
  readonly phase: SyncSecretPhase;
  readonly status: 'True' | 'False';
  readonly reason: string;
  readonly message: string;
  /** Nothing is wrong: it waits for its turn, or for the answer of the other cluster. */
  readonly isUnderWay?: true;
}

export interface SyncSecretsOptions {
  /** Name of the controller. */
  readonly controller: string;
  readonly api: KubeApi;
  /** Whether an object is a rule of this controller. */
  readonly isRule: (rule: SyncSecretRule) => boolean;
  readonly onChange: (rule: RuleKey, initial: boolean) => void;
  /** Somebody else has changed the status of a rule. */
  readonly onForeignStatus?: (rule: RuleKey) => void;
  readonly recordEvent: (event: EventInput) => void;
  /** Wall clock, ms. */
  readonly now: () => number;
}

/** Not `FIELD_MANAGER`, because a SyncSecret may be a copy as well: see `RuleClient`. */
const RULES_MANAGER = 'keyferry-rules';

export class SyncSecrets {
  readonly store: RuleStore<SyncSecretRule>;
  readonly #options: SyncSecretsOptions;
  readonly #client: RuleClient;
  readonly #lists = new KeyLists();
  readonly #statuses: RuleStatuses<SyncSecretRule, SyncSecretStatus>;

  constructor(options: SyncSecretsOptions) {
    this.#options = options;
    this.store = new RuleStore({
      controller: options.controller,
      toRule: (object) => {
        const rule = ruleOf(object, this.#lists);
        return options.isRule(rule) ? rule : undefined;
      },
      versionOf: ruleVersion,
      onChange: options.onChange,
      onSameVersion: (rule, before, after) => {
        if (this.#statuses.reported(rule, before, after)) options.onForeignStatus?.(rule);
      },
    });
    const { api, recordEvent, now } = options;
    const { store } = this;
    const client = new RuleClient({
      api,
      kind: SYNC_SECRET,
      store: { storeResponse: (object) => this.#storeMetadata(object) },
      metadataOnly: true,
      fieldManager: RULES_MANAGER,
    });
    this.#client = client;
    this.#statuses = new RuleStatuses({
      client,
      store,
      isSame: sameStatus,
      now,
      recordEvent: ({ metadata: { name, namespace = '', uid } }, event) => {
        const subject = { apiVersion: SYNC_SECRET_API_VERSION, kind: SYNC_SECRET_KIND, namespace, name, uid };
        recordEvent({ subject, ...event });
      },
    });
  }

  /** The version of a rule on the server; `undefined`: the object is not a rule. @throws ApiError */
  async readVersion(rule: RuleKey, signal: AbortSignal): Promise<string | undefined> {
    return this.store.versionOf(await this.#client.get(ruleName(rule), signal));
  }

  /** Adds the finalizer in place of KubeLB's, and annotations in the same write. Does nothing if the object has them or is being deleted. @throws ApiError */
  async addFinalizer(
    rule: RuleKey,
    annotations: Readonly<Record<string, string>> | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const object = this.store.get(rule);
    if (object === undefined || object.metadata.deletionTimestamp !== undefined) return;
    const whole = await this.#withFinalizers(rule, object, signal);
    const replaces = [ORIGINAL_FINALIZER];
    await this.#client.addFinalizer(whole, SYNC_SECRET_FINALIZER, { annotations, replaces }, signal);
  }

  /** Removes the finalizers, also that of KubeLB. @param annotations to be removed in the same write @throws ApiError */
  async removeFinalizer(rule: RuleKey, annotations: readonly string[], signal: AbortSignal): Promise<void> {
    const object = this.store.get(rule);
    if (object === undefined) return;
    const removed = annotations.length === 0 ? undefined : Object.fromEntries(annotations.map((key) => [key, null]));
    const whole = await this.#withFinalizers(rule, object, signal);
    await this.#client.removeFinalizers(whole, [...OWN_FINALIZERS], { annotations: removed }, signal);
  }

  /** The object with all its finalizers, which are replaced as one list. @throws ApiError */
  async #withFinalizers(rule: RuleKey, object: SyncSecretRule, signal: AbortSignal): Promise<KubeObject> {
    if (!object.metadata.finalizers.includes(MORE_FINALIZERS)) return object;
    const { metadata, ...rest } = await this.#client.get(ruleName(rule), signal);
    // Another object of the name may have been created meanwhile: then the write fails, because it requires this uid.
    return { ...rest, metadata: { ...metadata, uid: object.metadata.uid } };
  }

  /**
   * Writes phase and condition if they differ, and a Warning event when the condition turns False or has another cause.
   * @returns when to try again, if somebody else keeps changing them
   * @throws ApiError
   */
  async writeStatus(
    rule: RuleKey,
    { phase, isUnderWay, ...state }: SyncState,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const object = this.store.get(rule);
    if (object === undefined) return undefined;
    const { generation } = object.metadata;
    const [before] = this.#statuses.latest(rule, object).conditions ?? [];
    const next = { type: SYNCED_CONDITION, ...state };
    const condition = nextCondition(before, next, generation, this.#options.now(), MAX_TEXT);
    const { status, reason, message } = condition;
    const isNews = before?.status !== status || before.reason !== reason || before.message !== message;
    // A SyncSecret that waits for its turn is no reason for a warning.
    const isWarning = status === 'False' && isUnderWay !== true && isNews;
    const events: RuleEvent[] = isWarning ? [{ type: 'Warning', reason, message }] : [];
    const observed = generation === undefined ? {} : { observedGeneration: generation };
    return await this.#statuses.write(
      rule,
      object,
      { status: { phase, ...observed, conditions: [condition] }, events },
      signal,
    );
  }

  /** Records a Warning event, and only once for all retries. */
  warn(rule: RuleKey, reason: string, message: string): void {
    const object = this.store.get(rule);
    if (object !== undefined) this.#statuses.record(rule, object, [{ type: 'Warning', reason, message }]);
  }

  /** The response to our own write has no values, and so neither type nor `immutable`. Without a new generation these are the same. */
  #storeMetadata(object: KubeObject): void {
    const { namespace = '', name, generation } = object.metadata;
    const stored = this.store.get(this.store.key(namespace, name));
    if (stored?.metadata.generation === generation) this.store.storeResponse({ ...stored, ...object });
  }

  /** The rule is gone. */
  forget(rule: RuleKey): void {
    this.#statuses.forget(rule);
  }
}

function sameStatus(a: SyncSecretStatus, b: SyncSecretStatus): boolean {
  return (
    a.phase === b.phase && a.observedGeneration === b.observedGeneration && sameConditions(a.conditions, b.conditions)
  );
}
