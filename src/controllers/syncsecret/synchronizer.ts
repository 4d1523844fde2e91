/**
 * The secret synchronizer makes a SyncSecret of each labelled Secret in a tenant cluster. It also removes KubeLB's
 * finalizer from these Secrets. It reads no other Secrets. `rules/synchronizer-rule-set.ts` turns them into claims.
 */
import type { Controller, GoneRule, Report, RuleFacts, RuleKind } from '../../copy/engine/controller.ts';
import { RuleStore } from '../../copy/engine/life/rule-store.ts';
import { isUnderWay } from '../../copy/model/claim.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { MANAGED_BY_KUBELB, MANAGED_BY_LABEL, ORIGINAL_FINALIZER } from './api.ts';
import {
  type SecretRule,
  secretRule,
  secretVersion,
  SYNCHRONIZER_CONTROLLER,
  SynchronizerRules,
} from './rules/synchronizer-rule-set.ts';
import { SYNC_SECRET_ENTRY, watchSyncSecrets } from './sync-secret-rules.ts';

export const secretSynchronizer: ControllerEntry = {
  name: SYNCHRONIZER_CONTROLLER,
  component: 'kubelb-ccm',
  ...SYNC_SECRET_ENTRY,
  create: (context) => new Synchronizer(context),
};

export class Synchronizer implements Controller<SecretRule, object> {
  readonly rules: SynchronizerRules;
  readonly store: RuleStore<SecretRule>;
  readonly kindOf = (): RuleKind => SECRET;
  readonly #context: ControllerContext;

  constructor(context: ControllerContext) {
    this.#context = context;
    const { engine, scope } = context;
    this.store = new RuleStore({
      controller: SYNCHRONIZER_CONTROLLER,
      toRule: secretRule,
      versionOf: secretVersion,
      onChange: (rule) => engine.enqueueRule(rule),
    });
    this.rules = new SynchronizerRules(scope, this.store);
  }

  async open(): Promise<void> {
    const { cluster } = this.#context;
    const labelSelector = `${MANAGED_BY_LABEL}=${MANAGED_BY_KUBELB}`;
    // Each change of a labelled Secret enqueues its rule.
    const labelled = cluster.watchContents(SECRET, { labelSelector, isSource: () => true }, this.store.sink);
    const syncSecrets = watchSyncSecrets(this.#context);
    await Promise.all([labelled.synced, syncSecrets.synced]);
  }

  /** A Secret has no status, and the status of its SyncSecret is written by the CCM. So a problem becomes an event. */
  report(facts: RuleFacts<SecretRule, object> | GoneRule): Report | undefined {
    if (facts.rule === undefined) return undefined;
    const { rule: secret, claims, failure } = facts;
    const outcome = claims[0]?.outcome;
    const isRefused = !secret.isReleased && (outcome?.state === 'conflict' || outcome?.state === 'error');
    const problem = failure ?? (isRefused ? outcome : undefined);
    const remarks = problem ? [{ type: 'Warning', reason: problem.reason, message: problem.message } as const] : [];
    // Only now: while the SyncSecret has no mark yet, only the finalizer shows that it was made of this Secret.
    const isTried = outcome !== undefined && !isUnderWay(outcome);
    const mayGo = isTried && secret.metadata.finalizers !== undefined;
    return { remarks, ...(mayGo ? { removeFinalizers: [ORIGINAL_FINALIZER] } : {}) };
  }
}
