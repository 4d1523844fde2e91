/**
 * The life of the rules of one controller, from the first write into a rule's object to its end. Controllers say what is
 * due (`Controller.due`) and what the user is told (`Controller.report`), without I/O. This class reads and writes.
 *
 *   changed ──▶ evaluated ──▶ due: finalizer, defaults            (the targets do not wait for it)
 *                  └────────▶ report: events, then the status, then the finalizers that may go
 *
 * Every step reads the present state of the rule, so each can be repeated, and a crash between two costs nothing.
 */
import type { Entry } from '../../book/claim-book.ts';
import { backendOf, namespaceOf, parseRuleKey, type ResourceKey, type RuleKey } from '../../model/keys.ts';
import type { RuleSet, RuleState } from '../../model/rule-set.ts';
import type { KubeApi, KubeObject } from '../../../kube/api.ts';
import { isConflict, isForbidden, isInvalid, isObjectGone } from '../../../kube/errors.ts';
import type { EventInput } from '../../../kube/event-recorder.ts';
import type { Log } from '../../../observe/log.ts';
import type { Clock } from '../../../runtime/clock.ts';
import type { RunResult } from '../../../runtime/queue/keyed-queue.ts';
import { SingleFlight } from '../../../runtime/queue/single-flight.ts';
import { orAborted } from '../../../runtime/abort.ts';
import { isDeepStrictEqual } from 'node:util';
import type { Controller, Report, RuleChange, RuleEvent, RuleProgress } from '../controller.ts';
import type { RuleStatus } from './condition.ts';
import { Deletions } from './deletions.ts';
import { RuleClient } from './rule-client.ts';
import { RuleStatuses } from './rule-statuses.ts';
import { MORE_FINALIZERS, type RuleObject } from './rule-store.ts';

export interface RuleLifeOptions {
  /** The API of the cluster that has the rules. */
  readonly api: KubeApi;
  readonly clock: Clock;
  readonly log: Pick<Log, 'warn'>;
  /** Longest wait of a rule that is being deleted, ms. */
  readonly deletionTimeoutMs: number;
  /** Writes an Event about the rule, and a log line. */
  readonly recordEvent: (rule: RuleKey, event: EventInput) => void;
  /** Whether a change of the namespace concerns the rule, and the rule was not evaluated since. @throws ApiError */
  readonly isOutdated: (rule: RuleKey, namespace: string, signal: AbortSignal) => Promise<boolean>;
  /** Called when the status of a rule must be compared again. */
  readonly enqueueStatus: (rule: RuleKey) => void;
}

/** No evaluation has this version. So Keyferry deletes no orphan of the rule before the next evaluation. */
const NOT_EVALUATED = '';
/** Pause before a failed write of the status of a deleted rule is tried again, ms. */
const STATUS_RETRY_MS = 5000;

/** The part of a life that the loops of the engine use. */
export type Life = Pick<RuleLife, 'rules' | 'listed' | 'isDue' | 'write' | 'getLive' | 'report'>;

export class RuleLife<Rule extends RuleObject = RuleObject, Status extends RuleStatus = RuleStatus> {
  readonly rules: RuleSet;
  readonly #controller: Controller<Rule, Status>;
  readonly #options: RuleLifeOptions;
  readonly #client: RuleClient;
  readonly #statuses: RuleStatuses<Rule, Status>;
  readonly #deletions: Deletions;
  readonly #reads = new SingleFlight<RuleState>();
  /** By rule: the uid of an object that violates its CRD, so that the server refuses all changes but metadata. */
  readonly #refused = new Map<RuleKey, string>();
  /** By rule: the uid of its object, and the remarks of its last report, which were recorded as events. */
  readonly #told = new Map<RuleKey, { readonly uid: string; readonly remarks: readonly RuleEvent[] }>();
  /** The events since the last write of a status that did not fail. A retry of the write records no event twice. */
  readonly #recorded = new Map<RuleKey, { readonly uid: string; readonly events: readonly RuleEvent[] }>();
  #listed: Promise<unknown> = Promise.resolve();

  constructor(controller: Controller<Rule, Status>, options: RuleLifeOptions) {
    const { store } = controller;
    const { api, clock, deletionTimeoutMs, enqueueStatus } = options;
    this.#controller = controller;
    this.#options = options;
    this.rules = controller.rules;
    const client = (this.#client = new RuleClient(api, controller.kindOf));
    const now = (): number => clock.now();
    this.#statuses = new RuleStatuses({ client, store, onForeign: enqueueStatus, now });
    this.#deletions = new Deletions(clock, deletionTimeoutMs);
  }

  /** Opens the watches of the controller, and settles as `listed`. */
  async open(signal: AbortSignal): Promise<void> {
    await (this.#listed = Promise.resolve(this.#controller.open(signal)));
  }

  /** Settles when the caches have all that an evaluation reads. @throws the reason of `signal` */
  async listed(signal: AbortSignal): Promise<void> {
    await orAborted(this.#listed, signal, 'waiting for lists');
  }

  /** Whether something must be written into the object of the rule. From memory alone. */
  isDue(rule: RuleKey): boolean {
    return this.#due(rule) !== undefined;
  }

  #due(key: RuleKey): RuleChange | undefined {
    const rule = this.#controller.store.get(key);
    if (rule === undefined || rule.isGone === true) return undefined;
    const change = this.#controller.due?.(key, rule);
    if (change === undefined || this.#refused.get(key) !== rule.metadata.uid) return change;
    return change.finalizer === undefined ? undefined : { finalizer: change.finalizer };
  }

  /** Writes what is due. The change of the object enqueues the rule again. @throws ApiError, ConnectionError */
  async write(key: RuleKey, signal: AbortSignal): Promise<void> {
    const change = this.#due(key);
    const rule = this.#controller.store.get(key);
    if (change === undefined || rule === undefined) return;
    const { name, uid } = rule.metadata;
    try {
      await this.#change(key, rule, change, signal);
    } catch (error) {
      if (isObjectGone(error, name)) return;
      // The server may refuse an object that is older than the CRD's schema, but not the finalizer alone.
      if (!isInvalid(error) || (change.spec ?? change.managedFields) === undefined) throw error;
      this.#refused.set(key, uid);
      await this.write(key, signal);
    }
  }

  async #change(key: RuleKey, rule: Rule, change: RuleChange, signal: AbortSignal): Promise<void> {
    const { finalizer, replaces = [], spec, managedFields } = change;
    const { uid, resourceVersion, finalizers = [] } = await this.#metadataOf(key, rule, signal);
    const others = finalizers.filter((one) => !replaces.includes(one) && one !== finalizer);
    const added = finalizer === undefined ? undefined : [...others, finalizer];
    const metadata = { uid, resourceVersion, finalizers: added, managedFields };
    const object = await this.#client.patch(key, { metadata, spec }, signal);
    this.#controller.store.storeResponse(object);
    if (finalizer !== undefined && object.metadata.finalizers?.includes(finalizer) !== true)
      throw new Error('the API server did not store the finalizer');
  }

  /** The metadata of a rule with all finalizers: a write replaces the whole list. @throws ApiError */
  async #metadataOf(key: RuleKey, rule: Rule, signal: AbortSignal): Promise<Rule['metadata']> {
    if (rule.metadata.finalizers?.includes(MORE_FINALIZERS) !== true) return rule.metadata;
    // If the object was recreated meanwhile, the write must fail: so the patch keeps the earlier uid.
    return { ...(await this.#client.get(key, signal)).metadata, uid: rule.metadata.uid };
  }

  /**
   * Reads the rule from the server. Simultaneous reads of one rule share one request. If a namespace changed and the
   * rule was not evaluated since, the answer is a version that no evaluation has.
   * @throws ApiError, ConnectionError
   */
  async getLive(rule: RuleKey, target: ResourceKey, signal: AbortSignal): Promise<RuleState> {
    const live = await this.#reads.run(rule, async (shared) => await this.#read(rule, shared), signal);
    if (live.state === 'gone') return live;
    // The namespaces of another cluster decide nothing.
    if (backendOf(target) !== this.#options.api.cluster) return live;
    const isOutdated = await this.#options.isOutdated(rule, namespaceOf(target), signal);
    return isOutdated ? { ...live, version: NOT_EVALUATED } : live;
  }

  async #read(rule: RuleKey, signal: AbortSignal): Promise<RuleState> {
    const { store } = this.#controller;
    try {
      const version = store.versionOf(await this.#client.get(rule, signal));
      return version === undefined ? { state: 'gone' } : { state: 'there', version };
    } catch (error) {
      if (isObjectGone(error, parseRuleKey(rule).name)) return { state: 'gone' };
      throw error;
    }
  }

  /**
   * Tells users what has become of the rule's claims: by its status, or by events. Then removes what nothing needs any
   * more. Called after a change, at most once a second.
   * @param entries the claims of the rule
   * @throws ApiError, ConnectionError
   */
  async report(
    key: RuleKey,
    entries: Iterable<Entry>,
    progress: RuleProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { store } = this.#controller;
    const rule = store.get(key);
    if (rule === undefined) {
      await this.#tellGone(key, this.#forget(key), signal);
      return undefined;
    }
    const { metadata } = rule;
    // Of an earlier version, or of one whose finalizer is not there yet, no outcome is told: another report follows.
    const isOutdated = progress.evaluated !== store.version(key) || this.#due(key)?.finalizer !== undefined;
    const isDeleted = metadata.deletionTimestamp !== undefined;
    if (isOutdated && (progress.failure === undefined || isDeleted)) return undefined;
    const claims = isOutdated ? [] : [...entries];
    const deletion = this.#deletions.step(key, rule, claims);
    const previous = this.#statuses.latest(key, rule);
    const now = this.#options.clock.now();
    const report = this.#controller.report({ ...progress, key, rule, claims, deletion, previous, now });
    if (report === undefined) return undefined;
    const laterMs = await this.#tell(key, rule, report, isDeleted, signal);
    if (report.removeFinalizers !== undefined) await this.#removeFinalizers(key, rule, report.removeFinalizers, signal);
    if (laterMs === undefined) report.written?.();
    return soonest(laterMs, report.againMs);
  }

  /** Records events and writes the status. @returns ms until it must be tried again; `undefined`: it is done */
  async #tell(
    key: RuleKey,
    rule: Rule,
    { status, events = [], remarks = [] }: Report<Status>,
    isDeleted: boolean,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const statuses = this.#statuses;
    const { uid } = rule.metadata;
    const isSame = status !== undefined && statuses.isLatest(key, rule, status);
    const pauseMs = status === undefined ? 0 : statuses.pauseMs(key, rule, status);
    if (pauseMs > 0) return pauseMs;
    // Events are recorded first, because the server may refuse the write of the status.
    const recorded = this.#recorded.get(key);
    if (events.length > 0 && !isDeepStrictEqual(recorded, { uid, events })) {
      this.#recorded.set(key, { uid, events });
      this.#record(key, rule, events);
    }
    // If the first report of this process has the status that the server has, an earlier process made the remarks.
    const told = this.#told.get(key);
    const earlier = told?.uid === uid ? told.remarks : isSame ? remarks : [];
    this.#record(
      key,
      rule,
      remarks.filter((remark) => !earlier.some((one) => isDeepStrictEqual(one, remark))),
    );
    if (remarks.length > 0 || told !== undefined) this.#told.set(key, { uid, remarks });
    if (status !== undefined && rule.isGone !== true) {
      try {
        await statuses.write(key, rule, status, signal);
      } catch (error) {
        if (!isDeleted) throw error;
        // The deletion goes on: RBAC roles that were made for an original may not permit writes of the status.
        signal.throwIfAborted();
        const message = 'the status of a rule that is being deleted cannot be written';
        if (!isForbidden(error)) this.#options.log.warn(message, { rule: key, error });
        return STATUS_RETRY_MS;
      }
    }
    if (status !== undefined) this.#recorded.delete(key);
    return undefined;
  }

  /** Tells of a rule that is gone, if its object is still there: without the annotations that made it a rule. */
  async #tellGone(key: RuleKey, { remarks = [], written }: Report, signal: AbortSignal): Promise<void> {
    try {
      if (remarks.length > 0) {
        const object = await this.#client.get(key, signal);
        const isGone = object.metadata.deletionTimestamp !== undefined;
        if (!isGone && this.#controller.store.versionOf(object) === undefined) this.#record(key, object, remarks);
      }
    } catch (error) {
      if (!isObjectGone(error, parseRuleKey(key).name)) throw error;
    }
    written?.();
  }

  #record(key: RuleKey, rule: RuleObject, events: readonly RuleEvent[]): void {
    const { apiVersion, kind } = this.#controller.kindOf(key);
    const { name, namespace = '', uid } = rule.metadata;
    for (const event of events)
      this.#options.recordEvent(key, { subject: { apiVersion, kind, namespace, name, uid }, ...event });
  }

  /** Removes finalizers from the object of the rule. If it is gone, the rule goes, too. */
  async #removeFinalizers(key: RuleKey, rule: Rule, finalizers: readonly string[], signal: AbortSignal): Promise<void> {
    const { store } = this.#controller;
    const { name, uid } = rule.metadata;
    const remove = async ({ resourceVersion, finalizers: all = [] }: Rule['metadata']): Promise<void> => {
      const left = all.filter((one) => !finalizers.includes(one));
      if (left.length === all.length) return;
      const metadata = { uid, resourceVersion, finalizers: left };
      store.storeResponse(await this.#client.patch(key, { metadata }, signal));
    };
    store.end(key, rule, rule.isGone === true);
    if (rule.isGone === true) return;
    let live: KubeObject | undefined = rule;
    try {
      await remove(await this.#metadataOf(key, rule, signal)).catch(async (error: unknown) => {
        // The watch is late, or does not report this object any more.
        if (!isConflict(error)) throw error;
        live = await this.#client.get(key, signal);
        if (live.metadata.uid === uid) await remove(live.metadata);
      });
    } catch (error) {
      if (!isObjectGone(error, name)) throw error;
      live = undefined;
    }
    // A new object of the same name stays as it is.
    if (live?.metadata.uid !== uid) store.end(key, rule, true);
  }

  /** @returns what is to be told if the object of the rule is still there */
  #forget(key: RuleKey): Report {
    this.#statuses.forget(key);
    this.#deletions.forget(key);
    this.#refused.delete(key);
    this.#told.delete(key);
    this.#recorded.delete(key);
    return this.#controller.report({ key, rule: undefined }) ?? {};
  }
}

function soonest(...waitsMs: readonly (number | undefined)[]): RunResult | undefined {
  const known = waitsMs.filter((ms) => ms !== undefined);
  return known.length === 0 ? undefined : { requeueAfterMs: Math.min(...known) };
}
