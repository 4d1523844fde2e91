/**
 * What the operator does for SecretMirrors: it prepares a mirror (`preparation.ts`), registers the entries in Vault that it uses, and writes its
 * status (`status-update.ts`). What a mirror means is in `rule-set.ts`.
 */
import type { KubeApi } from '../../../kube/api.ts';
import { orAborted } from '../../../runtime/abort.ts';
import type { RunResult } from '../../../runtime/queue/keyed-queue-options.ts';
import type { Entry } from '../../../copy/book/claim-book.ts';
import { type RuleKey, ruleName } from '../../../copy/model/keys.ts';
import type { Preparation, RuleProgress, RuleReconciler } from '../../../copy/engine/rule-reconciler.ts';
import { liveRules } from '../../common/rules/live-rules.ts';
import { RuleClient } from '../../common/rules/rule-client.ts';
import { SECRET_MIRRORS, type SecretMirror } from '../api.ts';
import { MirrorPreparation } from './preparation.ts';
import type { MirrorRules } from '../rules/rule-set.ts';
import { type MirrorStatusOptions, MirrorStatusUpdate } from './status-update.ts';

export interface MirrorReconcilerOptions extends Omit<MirrorStatusOptions, 'client'> {
  readonly api: KubeApi;
  readonly rules: MirrorRules;
  /** Settles when the mirrors and all copies have been listed. */
  readonly synced: () => Promise<unknown>;
  /** A mirror was deleted. */
  readonly onGone: (mirror: string) => void;
  /** Whether the mirror may reach a namespace that was added or deleted since its evaluation. */
  readonly isNamespacePending?: (rule: RuleKey) => boolean;
}

export class MirrorReconciler implements RuleReconciler {
  readonly rules: MirrorRules;
  readonly getLive: RuleReconciler['getLive'];
  readonly #options: MirrorReconcilerOptions;
  readonly #preparation: MirrorPreparation;
  readonly #status: MirrorStatusUpdate;

  constructor(options: MirrorReconcilerOptions) {
    this.#options = options;
    const { api, mirrors: store } = options;
    this.rules = options.rules;
    const client = new RuleClient({ api, kind: SECRET_MIRRORS, store });
    this.getLive = liveRules(
      async (rule, signal) => store.versionOf(await client.get(ruleName(rule), signal)),
      (rule) => options.isNamespacePending?.(rule) === true,
    );
    this.#preparation = new MirrorPreparation({ client, mirrors: store, specs: options.rules.specs });
    this.#status = new MirrorStatusUpdate({ ...options, client });
  }

  async listed(_rule: RuleKey, signal: AbortSignal): Promise<void> {
    // The copies of a mirror are only known after the list of all copies.
    await orAborted(this.#options.synced(), signal, 'waiting for the list of copies');
  }

  preparationOf(rule: RuleKey): Preparation | undefined {
    return this.#preparation.needed(rule);
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    await this.#preparation.prepare(rule, signal);
  }

  evaluated(rule: RuleKey): void {
    const { mirrors, rules, vault } = this.#options;
    const mirror = mirrors.get(rule);
    if (mirror === undefined || mirror.metadata.deletionTimestamp !== undefined) vault?.release(rule);
    else vault?.use(rule, rules.specs.get(mirror));
  }

  /** @see RuleStatuses.reported */
  statusReported(rule: RuleKey, before: SecretMirror, after: SecretMirror): boolean {
    return this.#status.reported(rule, before, after);
  }

  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    progress: RuleProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const mirror = this.#options.mirrors.get(rule);
    if (mirror !== undefined) return await this.#status.update(rule, mirror, [...entries], progress, signal);
    this.#status.remove(rule);
    this.#preparation.remove(rule);
    this.#options.onGone(ruleName(rule));
    return undefined;
  }
}
