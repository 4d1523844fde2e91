/** The SyncSecrets that are rules of one controller: the store, and the writes of finalizers and status. */
import { clipped, ruleOf, ruleVersion, type SyncSecretRule } from './rule.ts';
import type { KubeApi } from '../../kube/api.ts';
import { isObjectGone } from '../../kube/errors.ts';
import type { EventInput } from '../../kube/event-correlator.ts';
import { KeyLists } from '../../copy/model/key-lists.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { rfc3339 } from '../../runtime/rfc3339.ts';
import { RuleClient } from '../common/rule-client.ts';
import { ruleName, RuleStore } from '../common/rule-store.ts';
import {
  ORIGINAL_FINALIZER,
  SYNC_SECRET_API_VERSION,
  SYNC_SECRET_FINALIZER,
  SYNC_SECRET_KIND,
  SYNCED_CONDITION,
  type SyncSecretPhase,
} from './api.ts';
import { SYNC_SECRET } from './kind.ts';

/** The status that a SyncSecret should have: its phase and its one condition. */
export interface SyncState {
  readonly phase: SyncSecretPhase;
  readonly status: 'True' | 'False';
  readonly reason: string;
  readonly message: string;
}

export interface SyncSecretsOptions {
  /** Name of the controller. */
  readonly controller: string;
  readonly api: KubeApi;
  /** Whether an object is a rule of this controller. */
  readonly isRule: (rule: SyncSecretRule) => boolean;
  readonly onChange: (rule: RuleKey, initial: boolean) => void;
  readonly recordEvent: (event: EventInput, rule: string) => void;
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
  /** Events that were recorded for a status that is not written yet. */
  readonly #recorded = new Map<RuleKey, string>();

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
    });
    const { api } = options;
    this.#client = new RuleClient({ api, kind: SYNC_SECRET, store: this.store, fieldManager: RULES_MANAGER });
  }

  /** The version of a rule on the server; `undefined`: the object is not a rule. @throws ApiError */
  async readVersion(rule: RuleKey, signal: AbortSignal): Promise<string | undefined> {
    return this.store.versionOf(await this.#client.get(ruleName(rule), signal));
  }

  /** Adds the finalizer, and annotations in the same write. Does nothing if the object has them or is being deleted. @throws ApiError */
  async addFinalizer(
    rule: RuleKey,
    annotations: Readonly<Record<string, string>> | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const object = this.store.get(rule);
    if (object === undefined || object.metadata.deletionTimestamp !== undefined) return;
    await this.#client.addFinalizer(object, SYNC_SECRET_FINALIZER, { annotations }, signal);
  }

  /** Removes the finalizers, also that of KubeLB. @param annotations to be removed in the same write @throws ApiError */
  async removeFinalizer(rule: RuleKey, annotations: readonly string[], signal: AbortSignal): Promise<void> {
    const object = this.store.get(rule);
    if (object === undefined) return;
    const removed = annotations.length === 0 ? undefined : Object.fromEntries(annotations.map((key) => [key, null]));
    const finalizers = [SYNC_SECRET_FINALIZER, ORIGINAL_FINALIZER];
    await this.#client.removeFinalizers(object, finalizers, { annotations: removed }, signal);
  }

  /** Writes phase and condition if they differ, and a Warning event when the condition turns False or has another cause. @throws ApiError */
  async writeStatus(rule: RuleKey, state: SyncState, signal: AbortSignal): Promise<void> {
    const object = this.store.get(rule);
    if (object === undefined) return;
    const { now } = this.#options;
    const { generation } = object.metadata;
    const { phase, condition: before, observedGeneration } = object.status;
    const message = clipped(state.message);
    const { status, reason } = state;
    const isSame =
      phase === state.phase &&
      observedGeneration === generation &&
      before?.observedGeneration === generation &&
      before?.status === status &&
      before.reason === reason &&
      before.message === message;
    if (isSame) return;
    if (status === 'False' && (before?.status !== 'False' || before.reason !== reason || before.message !== message)) {
      this.#record(rule, object, reason, message);
    }
    const observed = generation === undefined ? {} : { observedGeneration: generation };
    const lastTransitionTime = before?.status === status ? before.lastTransitionTime : rfc3339(now());
    const condition = { type: SYNCED_CONDITION, status, ...observed, lastTransitionTime, reason, message };
    try {
      await this.#client.patchStatus(object, { phase: state.phase, ...observed, conditions: [condition] }, signal);
    } catch (error) {
      if (!isObjectGone(error, object.metadata.name)) throw error;
    }
    this.#recorded.delete(rule);
  }

  /** The rule is gone. */
  forget(rule: RuleKey): void {
    this.#recorded.delete(rule);
  }

  /** Records an event before the status is written, because that may be refused; and only once for all retries. */
  #record(rule: RuleKey, object: SyncSecretRule, reason: string, message: string): void {
    const text = JSON.stringify([object.metadata.uid, reason, message]);
    if (this.#recorded.get(rule) === text) return;
    this.#recorded.set(rule, text);
    this.warn(object, reason, message);
  }

  /** Records a Warning event. */
  warn({ metadata }: SyncSecretRule, reason: string, message: string): void {
    const { name, namespace = '', uid } = metadata;
    const subject = { apiVersion: SYNC_SECRET_API_VERSION, kind: SYNC_SECRET_KIND, namespace, name, uid };
    this.#options.recordEvent({ subject, type: 'Warning', reason, message }, `${namespace}/${name}`);
  }
}
