/**
 * The manager makes a Secret of each SyncSecret in the management cluster, and writes the status as KubeLB does.
 * `rules/sync-secret-rule-set.ts` turns the SyncSecrets into claims.
 */
import { SECRET } from '../../copy/model/kind.ts';
import { watchCopies } from '../common/watch-copies.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { COPY_OF_SYNC_SECRET } from './rules/marks.ts';
import { servedNamespaces } from './rules/one-cluster.ts';
import type { SyncSecretRule } from './rules/rule.ts';
import { managementState, type RuleResult } from './words.ts';
import { MANAGER_CONTROLLER, ManagerRules, originalTypeOf } from './rules/sync-secret-rule-set.ts';
import {
  SYNC_SECRET_ENTRY,
  SyncSecretController,
  type SyncSecretFacts,
  type SyncSecretReport,
  watchSyncSecrets,
} from './sync-secret-rules.ts';

export const syncSecretManager: ControllerEntry = {
  name: MANAGER_CONTROLLER,
  component: 'kubelb-manager',
  ...SYNC_SECRET_ENTRY,
  create: (context) => new Manager(context),
};

export class Manager extends SyncSecretController {
  readonly rules: ManagerRules;
  protected readonly target = 'its Secret';
  readonly #context: ControllerContext;

  constructor(context: ControllerContext) {
    super('manager', context);
    this.#context = context;
    const { scope, config } = context;
    const isServed = servedNamespaces(config.syncsecret.servedNamespaces);
    this.rules = new ManagerRules(scope, { store: this.store, isServed });
  }

  async open(): Promise<void> {
    const { cluster } = this.#context;
    // Each change of a SyncSecret enqueues its rule.
    const syncSecrets = watchSyncSecrets(this.#context, this.store.sink);
    const copies = watchCopies(cluster, SECRET, 'syncsecret', COPY_OF_SYNC_SECRET);
    await Promise.all([syncSecrets.synced, copies.synced]);
  }

  protected isRule({ metadata: { namespace = '' } }: SyncSecretRule): boolean {
    return this.rules.options.isServed(namespace);
  }

  protected reportOn(facts: SyncSecretFacts, result: RuleResult): SyncSecretReport | undefined {
    const { index } = this.#context.cluster.store(SECRET);
    const exists = result.entry !== undefined && index.find(result.entry.target) !== undefined;
    const state = managementState(result, exists, originalTypeOf(facts.rule));
    if (state === undefined) return undefined;
    this.metrics.finished(facts.key, state.status === 'True' ? 'success' : 'error');
    return this.statusOf(facts, state);
  }
}
