/**
 * Writes the status and events of SecretMirrors, and removes the finalizer of a deleted mirror.
 *
 * A mirror that is being deleted:
 *   waiting for its copies ──all deleted, or marked as retained──▶ revoking its leases ──done, or time limit──▶ finalizer removed
 *     └──time limit──▶ the same; the remaining copies become orphans
 */
import type { RunResult } from '../../../runtime/queue/keyed-queue-options.ts';
import type { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import { nobodyCause } from '../../../copy/model/cause.ts';
import { isUnderWay, type SourceView } from '../../../copy/model/claim.ts';
import { parseResourceKey, type ResourceKey, type RuleKey, ruleName } from '../../../copy/model/keys.ts';
import type { Entry } from '../../../copy/book/claim-book.ts';
import { KEPT_AS_SOURCE } from '../../../copy/plan/plan.ts';
import type { RuleProgress } from '../../../copy/engine/rule-reconciler.ts';
import { type DeletionOptions, Deletions } from '../../common/rules/deletion.ts';
import { finalizerStep } from '../../common/rules/finalizer.ts';
import type { RuleClient } from '../../common/rules/rule-client.ts';
import { type RuleEvent, RuleStatuses } from '../../common/rules/rule-statuses.ts';
import { ruleVersion } from '../../common/rules/rule-store.ts';
import { SECRET_MIRROR_FINALIZER, type SecretMirror, type SecretMirrorStatus } from '../api.ts';
import type { MirrorRules } from '../rules/rule-set.ts';
import { misreadPatterns } from '../../common/namespaces/selection.ts';
import type { MirrorStore } from '../rules/mirror-store.ts';
import type { MirrorVault } from './mirror-vault.ts';
import { RetainShape } from '../rules/shape.ts';
import type { EffectiveSpec } from '../rules/spec.ts';
import { nextStatus, sameStatus, type StatusInput, type StatusOutput } from '../rules/status.ts';
import { summarizeDeletion, namespaceList, groupOutcomes } from '../rules/summary.ts';

export interface MirrorStatusOptions extends DeletionOptions {
  readonly client: RuleClient;
  readonly mirrors: MirrorStore;
  readonly namespaces: Namespaces;
  readonly viewOf: (source: ResourceKey | undefined) => SourceView;
  readonly rules: MirrorRules;
  readonly vault?: MirrorVault | undefined;
  readonly recordEvent: (mirror: SecretMirror, event: RuleEvent) => void;
  /** All copies of a mirror are up to date. */
  readonly onSynced: (mirror: string, spec: EffectiveSpec, namespaces: number) => void;
  /** Wall clock, ms. */
  readonly now: () => number;
}

/** The source of a mirror that is being deleted. */
const NO_SOURCE: SourceView = { state: 'missing', ...nobodyCause('Deleted', 'the mirror is being deleted') };

export class MirrorStatusUpdate {
  readonly #options: MirrorStatusOptions;
  readonly #statuses: RuleStatuses<SecretMirror, SecretMirrorStatus>;
  readonly #deletions: Deletions;

  constructor(options: MirrorStatusOptions) {
    this.#options = options;
    this.#deletions = new Deletions(options);
    const { client, mirrors: store, recordEvent, now } = options;
    this.#statuses = new RuleStatuses<SecretMirror, SecretMirrorStatus>({
      client,
      store,
      isSame: sameStatus,
      recordEvent,
      now,
    });
  }

  /** @see RuleReconciler.updateStatus */
  async update(
    rule: RuleKey,
    mirror: SecretMirror,
    claims: readonly Entry[],
    progress: RuleProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { namespaces, rules, viewOf, vault } = this.#options;
    // The claims are of an earlier version, or wait for the finalizer. The evaluation of this one will touch the status again.
    const isUnprepared = finalizerStep(mirror.metadata, SECRET_MIRROR_FINALIZER) === 'add';
    const outdated = progress.evaluated !== ruleVersion(mirror) || isUnprepared;
    if (outdated && progress.failure === undefined) return undefined;
    if (mirror.metadata.deletionTimestamp !== undefined) {
      return outdated ? undefined : await this.#updateDeletion(rule, mirror, claims, signal);
    }
    const spec = rules.specs.get(mirror);
    const key = rules.sourceOf(rule, mirror, spec);
    const result = await this.#write(rule, mirror, claims, signal, {
      source: viewOf(key),
      trouble: key === undefined ? undefined : vault?.trouble(key),
      failure: progress.failure,
      misread: misreadPatterns(spec.suspects, namespaces.names()),
      writes: progress.writes,
    });
    if (result === undefined) return undefined;
    if (result.synced) this.#options.onSynced(ruleName(rule), spec, result.namespaces);
    return { requeueAfterMs: vault?.leases.revokeReplaced(rule, mirror, result.status, claims) };
  }

  /** @see RuleStatuses.reported */
  reported(rule: RuleKey, before: SecretMirror, after: SecretMirror): boolean {
    return this.#statuses.reported(rule, before, after);
  }

  remove(rule: RuleKey): void {
    this.#statuses.forget(rule);
    this.#deletions.forget(rule);
  }

  async #updateDeletion(
    rule: RuleKey,
    mirror: SecretMirror,
    claims: readonly Entry[],
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { client, rules, vault } = this.#options;
    const spec = rules.specs.get(mirror);
    const remaining = claims.filter((entry) => !isReleased(entry));
    const step = this.#deletions.step(rule, mirror, remaining, mayBecomeOrphan);
    if (step.isDone) {
      if (vault?.leases.revocation(rule, mirror, spec) === false) return undefined;
      const events = keptSourceEvents(claims);
      if (step.isTimedOut) {
        const { message } = summarizeDeletion(groupOutcomes(remaining, spec.destinationType), 'Pending');
        const text = `the SecretMirror no longer waits for its copies; the remaining copies will be deleted when possible. Last state: ${message}`;
        events.push({ type: 'Warning', reason: 'DeletionTimeout', message: text });
      }
      this.#statuses.record(rule, mirror, events);
      await client.removeFinalizers(mirror, [SECRET_MIRROR_FINALIZER], {}, signal);
      return undefined;
    }
    await this.#write(rule, mirror, claims, signal, { source: NO_SOURCE, misread: [], writes: 0 });
    return step.remainingMs > 0 ? { requeueAfterMs: step.remainingMs } : undefined;
  }

  /** @returns `undefined` while nothing is known yet */
  async #write(
    rule: RuleKey,
    mirror: SecretMirror,
    entries: readonly Entry[],
    signal: AbortSignal,
    facts: Pick<StatusInput, 'source' | 'trouble' | 'failure' | 'misread' | 'writes'>,
  ): Promise<StatusOutput | undefined> {
    const { rules, vault, now } = this.#options;
    const refusal = rules.refusalOf(rule);
    const spec = rules.specs.get(mirror);
    const result = nextStatus({
      ...facts,
      mirror,
      spec: refusal === undefined ? spec : { ...spec, problems: [refusal] },
      entries,
      leases: vault?.leases.states(rule, entries),
      previous: this.#statuses.latest(rule, mirror),
      now: now(),
    });
    if (result === undefined) return undefined;
    await this.#statuses.write(rule, mirror, result, signal);
    return result;
  }
}

/** The copy of a mirror that is being deleted is deleted, or is marked as retained. */
function isReleased({ claim, outcome }: Entry): boolean {
  if (claim.shape instanceof RetainShape) return outcome.state !== 'pending' && outcome.state !== 'error';
  return outcome.state === 'released';
}

/**
 * Whether the finalizer may be removed after the time limit although this copy remains: its deletion was tried, so it becomes an orphan.
 * A copy that must be retained but is not marked yet would be deleted as an orphan, against the mirror's deletePolicy.
 */
function mayBecomeOrphan({ claim, outcome }: Entry): boolean {
  return !(claim.shape instanceof RetainShape) && !isUnderWay(outcome);
}

/** For copies that stay after their mirror is deleted, because they are sources of other copies. */
function keptSourceEvents(entries: readonly Entry[]): RuleEvent[] {
  const kept = entries.filter(({ outcome }) => outcome.state === 'released' && outcome.kept === true);
  if (kept.length === 0) return [];
  const namespaces = new Set(kept.map(({ claim }) => parseResourceKey(claim.target).namespace));
  const message = `the copy in ${namespaceList([...namespaces].sort())} is kept while it is the source of other copies`;
  return [{ type: 'Warning', reason: KEPT_AS_SOURCE.reason, message }];
}
