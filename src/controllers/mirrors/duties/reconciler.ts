/**
 * Does the operator's work for each SecretMirror; `rules/rule-set.ts` says what a mirror means. The reconciler writes
 * the finalizer and the defaults, and, once the finalizer is there, the status. After each evaluation it tells the
 * Vault backend which entries the mirror uses. It also records events. A deleted mirror keeps its finalizer until its
 * copies and leases are dealt with:
 *
 *   waiting for copies ──all deleted, or marked retained──▶ revoking leases ──done, or time limit──▶ finalizer removed
 *     └──time limit──▶ the same; the remaining copies become orphans
 *
 * A mirror that is gone before that, without its finalizer or because a user removed it, may have copies, too. They are
 * found by their marks, and are orphans. But only the mirror says that they are retained, or whether its leases are
 * revoked: such a mirror stays in the store (`isGone`) until its copies and leases are dealt with.
 */
import type { KubeObject } from '../../../kube/api.ts';
import { isInvalid } from '../../../kube/errors.ts';
import type { WatchSink } from '../../../kube/watch/watcher.ts';
import type { RunResult } from '../../../runtime/queue/keyed-queue-options.ts';
import { rfc3339 } from '../../../runtime/text/texts.ts';
import type { Entry } from '../../../copy/book/claim-book.ts';
import type { RuleProgress, RuleReconciler } from '../../../copy/engine/controller.ts';
import { nobodyCause } from '../../../copy/model/cause.ts';
import type { SourceView } from '../../../copy/model/claim.ts';
import { type RuleKey, ruleName } from '../../../copy/model/keys.ts';
import type { AwaitedWatches } from '../../common/awaited-watches.ts';
import type { ControllerContext } from '../../common/context.ts';
import type { NamespaceChanges } from '../../common/namespaces/namespace-changes.ts';
import { misreadPatterns } from '../../common/namespaces/selection.ts';
import { Deletions, type FinalizerStep, finalizerStep } from '../../common/rules/finalizer.ts';
import { liveRules, RuleClient } from '../../common/rules/rule-client.ts';
import { type RuleEvent, RuleStatuses } from '../../common/rules/rule-statuses.ts';
import { ruleVersion } from '../../common/rules/rule-store.ts';
import { SECRET_MIRROR_FINALIZER, SECRET_MIRROR, type SecretMirror, type SecretMirrorStatus } from '../api.ts';
import { type StoredMirror, withoutOurSpec } from '../rules/mirror-store.ts';
import type { MirrorRules } from '../rules/rule-set.ts';
import { RetainShape } from '../rules/shape.ts';
import { missingDefaults } from '../rules/spec.ts';
import { deletionEvents, nextStatus, sameStatus, type StatusInput, type StatusOutput } from '../rules/status.ts';
import type { MirrorParts, MirrorVault } from './mirror-vault.ts';

export interface MirrorReconcilerParts extends Pick<MirrorParts, 'mirrors' | 'metrics' | 'recordEvent'> {
  readonly rules: MirrorRules;
  readonly vault: MirrorVault;
  /** The watches of the mirrors and of all copies. */
  readonly watches: AwaitedWatches;
  readonly isOutdated: NamespaceChanges['isOutdated'];
}

/** The view that is used as the source's while a mirror is being deleted. */
const NO_SOURCE: SourceView = { state: 'missing', ...nobodyCause('Deleted', 'the mirror is being deleted') };

export class MirrorReconciler implements RuleReconciler {
  readonly rules: MirrorRules;
  readonly getLive: RuleReconciler['getLive'];
  readonly #context: ControllerContext;
  readonly #parts: MirrorReconcilerParts;
  readonly #client: RuleClient;
  readonly #statuses: RuleStatuses<StoredMirror, SecretMirrorStatus>;
  readonly #deletions: Deletions;
  /** For each mirror with remarks in its last status: the events that were recorded for these remarks. */
  readonly #told = new Map<RuleKey, readonly RuleEvent[]>();
  /** By rule: the uid of a deleted mirror whose copies and leases are dealt with, so that it may be gone. */
  readonly #settled = new Map<RuleKey, string>();
  /** By rule: the uid of a mirror whose spec violates the CRD, so that the server refuses to add defaults to it. */
  readonly #refusedDefaults = new Map<RuleKey, string>();

  constructor(context: ControllerContext, parts: MirrorReconcilerParts) {
    this.#context = context;
    this.#parts = parts;
    this.rules = parts.rules;
    const { clock, config, engine } = context;
    const { api } = context.cluster;
    const { mirrors: store, recordEvent } = parts;
    const client = (this.#client = new RuleClient({ api, kind: SECRET_MIRROR, store }));
    this.getLive = liveRules(
      async (rule, signal) => store.versionOf(await client.get(ruleName(rule), signal)),
      parts.isOutdated,
    );
    this.#statuses = new RuleStatuses({
      client,
      store,
      isSame: sameStatus,
      recordEvent,
      onForeign: (rule) => engine.enqueueStatus(rule),
      now: () => clock.now(),
    });
    this.#deletions = new Deletions(clock, config.deletionTimeoutMs);
  }

  /** Receives the events of the watch of mirrors. */
  get sink(): WatchSink {
    const { mirrors } = this.#parts;
    return {
      ...mirrors.sink,
      remove: (object) => this.#removed(object),
      prune: (keys, resourceVersion, namespace) => {
        for (const { metadata } of mirrors.missingIn(keys, namespace))
          this.#removed({ metadata: { ...metadata, resourceVersion } });
      },
    };
  }

  #removed(object: KubeObject): void {
    const { mirrors } = this.#parts;
    const { namespace = '', name } = object.metadata;
    const mirror = mirrors.get(mirrors.key(namespace, name));
    const { deletePolicy, source } = mirror?.spec ?? {};
    const isSettled = this.#settled.get(mirrors.key(namespace, name)) === mirror?.metadata.uid;
    const isLeft = !isSettled && (deletePolicy === 'retain' || source?.type === 'vault');
    if (mirror === undefined || !isLeft) {
      mirrors.sink.remove(object);
      return;
    }
    const { clock, engine } = this.#context;
    const deletionTimestamp = rfc3339(clock.now());
    // With the last version, because the late response to a write must not bring the mirror back.
    const metadata = { ...mirror.metadata, resourceVersion: object.metadata.resourceVersion, deletionTimestamp };
    const gone: StoredMirror = { ...mirror, isGone: true, metadata };
    mirrors.put(gone);
    // If another finalizer held the mirror until now, the store sees no change, and no evaluation comes.
    engine.enqueueStatus(mirrors.key(namespace, name));
  }

  async listed(rule: RuleKey, signal: AbortSignal): Promise<void> {
    // An evaluation must know all copies of the mirror. Only the list of all copies shows them.
    await this.#parts.watches.listed(signal);
    await this.#context.cluster.namespaceReads.labelsKnown(this.rules.labelKeysOf(rule), signal);
  }

  needsPreparation(rule: RuleKey): boolean {
    const mirror = this.#parts.mirrors.get(rule);
    const step = stepOf(mirror);
    if (mirror === undefined || step !== 'apply') return step === 'add';
    const isIncomplete = this.#defaultsFor(rule, mirror) !== undefined;
    return isIncomplete || withoutOurSpec(mirror.metadata.managedFields) !== undefined;
  }

  #defaultsFor(rule: RuleKey, mirror: StoredMirror): Record<string, unknown> | undefined {
    const isRefused = this.#refusedDefaults.get(rule) === mirror.metadata.uid;
    return isRefused ? undefined : missingDefaults(mirror, this.rules.specOf(mirror));
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const mirror = this.#parts.mirrors.get(rule);
    if (mirror === undefined) return;
    const { uid } = mirror.metadata;
    const spec = this.#defaultsFor(rule, mirror);
    try {
      await this.#client.addFinalizer(mirror, SECRET_MIRROR_FINALIZER, { spec }, signal);
    } catch (error) {
      // The server may refuse the spec of a mirror that is older than the CRD's schema, but not the finalizer alone.
      if (!isInvalid(error) || spec === undefined) throw error;
      this.#refusedDefaults.set(rule, uid);
      await this.#client.addFinalizer(mirror, SECRET_MIRROR_FINALIZER, {}, signal);
    }
    await this.#disownDefaults(rule, signal);
  }

  /** Gives up the ownership of the defaults in a second request: the first request has made Keyferry their owner. */
  async #disownDefaults(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const mirror = this.#parts.mirrors.get(rule);
    const managedFields = withoutOurSpec(mirror?.metadata.managedFields);
    if (mirror === undefined || managedFields === undefined) return;
    const { resourceVersion } = mirror.metadata;
    try {
      await this.#client.patch(mirror, { metadata: { resourceVersion, managedFields } }, signal);
    } catch (error) {
      // If the mirror violates the CRD, the server refuses every change. Then Keyferry stays the owner of the defaults.
      if (!isInvalid(error)) throw error;
    }
  }

  evaluated(rule: RuleKey): void {
    const { mirrors, vault } = this.#parts;
    const mirror = mirrors.get(rule);
    if (mirror === undefined || isEnding(stepOf(mirror))) vault.release(rule);
    else vault.use(rule, this.rules.specOf(mirror));
  }

  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    { evaluated, failure, writes, ...findings }: RuleProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { mirrors, vault, metrics } = this.#parts;
    const { engine, cluster } = this.#context;
    const mirror = mirrors.get(rule);
    if (mirror === undefined) {
      this.#statuses.forget(rule);
      this.#deletions.forget(rule);
      this.#refusedDefaults.delete(rule);
      this.#told.delete(rule);
      this.#settled.delete(rule);
      metrics.removeMirror(ruleName(rule));
      return undefined;
    }
    const step = stepOf(mirror);
    // The claims are from an earlier version, or the finalizer is not there yet: the next evaluation comes here.
    const isOutdated = evaluated !== ruleVersion(mirror) || step === 'add';
    if (isOutdated && (failure === undefined || isEnding(step))) return undefined;
    const claims = [...entries];
    if (isEnding(step)) return await this.#updateDeletion(rule, mirror, claims, signal);
    const spec = this.rules.specOf(mirror);
    const key = this.rules.sourceOf(rule, mirror, spec);
    const before = this.#statuses.latest(rule, mirror);
    const result = await this.#write(rule, mirror, claims, signal, {
      ...findings,
      lease: vault.leases.state(key, claims),
      source: engine.backends.view(key),
      trouble: key === undefined ? undefined : vault.trouble(key),
      failure,
      misread: misreadPatterns(spec.suspects, cluster.namespaces.names()),
      writes,
    });
    const { status } = result ?? { status: before };
    if (result?.requeueAfterMs === undefined) vault.leases.recorded(rule, mirror, spec, before, status);
    if (result === undefined) return undefined;
    if (result.synced) metrics.synced(ruleName(rule), spec, result.namespaces);
    return soonest(result.requeueAfterMs, vault.leases.revokeReplaced(rule, claims));
  }

  async #updateDeletion(
    rule: RuleKey,
    mirror: StoredMirror,
    claims: readonly Entry[],
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { mirrors, vault } = this.#parts;
    const spec = this.rules.specOf(mirror);
    const remaining = claims.filter((entry) => !isReleased(entry));
    const step = this.#deletions.step(rule, mirror, remaining, mayBecomeOrphan);
    if (step.isDone) {
      if (!vault.leases.revocation(rule, mirror, spec)) return undefined;
      const events = deletionEvents(claims, step.isTimedOut ? remaining : [], spec.destinationType);
      this.#statuses.record(rule, mirror, events);
      this.#settled.set(rule, mirror.metadata.uid);
      if (mirror.isGone === true) mirrors.sink.remove(mirror);
      else await this.#client.removeFinalizers(mirror, [SECRET_MIRROR_FINALIZER], {}, signal);
      return undefined;
    }
    const facts = { source: NO_SOURCE, undeleted: [], misread: [], writes: 0 };
    const result = mirror.isGone === true ? undefined : await this.#write(rule, mirror, claims, signal, facts);
    return soonest(result?.requeueAfterMs, step.remainingMs > 0 ? step.remainingMs : undefined);
  }

  /** Writes the next status and records its events. @returns `undefined`: no status must be written now */
  async #write(
    rule: RuleKey,
    mirror: StoredMirror,
    entries: readonly Entry[],
    signal: AbortSignal,
    facts: Omit<StatusInput, 'mirror' | 'spec' | 'entries' | 'previous' | 'told' | 'now'>,
  ): Promise<(StatusOutput & RunResult) | undefined> {
    const result = nextStatus({
      ...facts,
      mirror,
      spec: this.rules.specOf(mirror),
      entries,
      previous: this.#statuses.latest(rule, mirror),
      told: this.#told.get(rule),
      now: this.#context.clock.now(),
    });
    if (result === undefined) return undefined;
    const later = await this.#statuses.write(rule, mirror, result, signal);
    if (later !== undefined) return { ...result, ...later };
    if (result.remarks.length === 0) this.#told.delete(rule);
    else this.#told.set(rule, result.remarks);
    return result;
  }
}

function soonest(...waitsMs: readonly (number | undefined)[]): RunResult {
  const known = waitsMs.filter((ms) => ms !== undefined);
  return known.length === 0 ? {} : { requeueAfterMs: Math.min(...known) };
}

function stepOf(mirror: SecretMirror | undefined): FinalizerStep | undefined {
  return mirror && finalizerStep(mirror.metadata, SECRET_MIRROR_FINALIZER);
}

/** Whether the mirror is being deleted, even if only a finalizer of another program still holds it. */
function isEnding(step: FinalizerStep | undefined): boolean {
  return step === 'cleanup' || step === 'none';
}

/** Whether a copy of a deleted mirror needs no more work: it is deleted, or marked as retained. */
function isReleased({ claim, outcome }: Entry): boolean {
  if (claim.shape instanceof RetainShape) return outcome.state !== 'pending' && outcome.state !== 'error';
  return outcome.state === 'released';
}

/**
 * Whether the finalizer of a deleted mirror may be removed after the time limit, although this copy remains. Yes if
 * Keyferry has tried to delete the copy. No if the copy must be retained but is not marked yet: it would be deleted.
 */
function mayBecomeOrphan({ claim, outcome }: Entry): boolean {
  return !(claim.shape instanceof RetainShape) && outcome.state !== 'pending';
}
