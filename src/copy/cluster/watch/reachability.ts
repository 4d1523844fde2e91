/**
 * Judges by the watches of a cluster whether it can be used, and keeps the targets that wait until it can be used.
 *
 *   reachable ──a watch failed, and is not connected for 3 s or was never listed──▶ unreachable
 *   unreachable ──all watches are connected──▶ reachable
 *
 * While another cluster is unreachable, or its first lists are not complete, no request is sent for its targets. So no
 * worker hangs, and the rules report the cause at once. When the cluster answers again, all waiting targets are tried.
 * The targets of the home cluster never wait here. After a failure the watches are checked every 500 ms until all are
 * connected. Without a failure no check runs.
 *
 * The messages contain no address, because authors of rules may not be allowed to know it. A message does not change
 * during an outage: each change would be written to the status of every rule concerned. The log has the details.
 */
import {
  ConnectionError,
  isForbidden,
  isGone,
  isNamespaceMissing,
  isNotFound,
  isUnanswered,
  isUnauthorized,
} from '../../../kube/errors.ts';
import type { Clock, Timer } from '../../../runtime/clock.ts';
import type { WatchHealth } from '../../../kube/watch/watch-target.ts';
import { because, type Cause, namespaceNotFound, sameCause } from '../../model/cause.ts';
import type { Waiting } from '../../model/claim.ts';
import type { ObjectKey } from '../../model/keys.ts';

export interface ReachabilityOptions {
  /** Name of the cluster. */
  readonly cluster: string;
  readonly clock: Clock;
  readonly watches: () => readonly WatchHealth[];
  /** Tries a waiting target at once, even if its back-off has not ended. */
  readonly retry: (target: ObjectKey) => void;
  /** Called when a target starts to wait, or the cause of its wait has changed. */
  readonly report: (target: ObjectKey, wait: Waiting) => void;
}

/** Time between two checks of the watches after a failure, ms. */
const LOOK_MS = 500;
/** A cluster stays reachable if a watch has no connection for up to this time, ms: servers end watches regularly. */
const DISCONNECTED_LIMIT_MS = 3000;

const TLS_CODE = /CERT|SIGNATURE|^ERR_(?:SSL|TLS)/;

export class Reachability {
  readonly #options: ReachabilityOptions;
  readonly #handlers: (() => void)[] = [];
  readonly #waiting = new Set<ObjectKey>();
  #cause: Cause | undefined;
  #lists: Promise<unknown> | undefined;
  #isListed = false;
  #timer: Timer | undefined;

  constructor(options: ReachabilityOptions) {
    this.#options = options;
  }

  /** Why the cluster cannot be used. `undefined`: it answers, or no watch has failed yet. */
  get cause(): Cause | undefined {
    return this.#cause;
  }

  /** Calls the handler when `cause` has changed. */
  onChange(handler: () => void): void {
    this.#handlers.push(handler);
  }

  /** Settles when the cluster turns out to be unreachable. */
  async found(): Promise<void> {
    if (this.#cause === undefined) await new Promise<void>((resolve) => this.onChange(resolve));
  }

  /** Called when a watch has failed: starts the regular checks. */
  watchFailed(): void {
    this.#look();
  }

  /**
   * Called when the first lists of the cluster begin, and when they begin anew. Earlier lists count no more.
   * @throws the error of the lists
   */
  async listing(lists: Promise<unknown>): Promise<void> {
    this.#lists = lists;
    this.#isListed = false;
    await lists;
    if (this.#lists !== lists) return;
    this.#isListed = true;
    this.#wake();
  }

  /** Whether a target can be reconciled now. Otherwise it waits, and `retry` is called for it later. */
  admits(target: ObjectKey): boolean {
    if (this.#isListed && this.#cause === undefined) {
      this.#waiting.delete(target);
      return true;
    }
    this.#waiting.add(target);
    if (this.#cause !== undefined) this.#options.report(target, waitFor(this.#cause));
    return false;
  }

  /** Called when the run of a target has failed. If the cluster did not answer, the target is tried when it does. */
  failed(target: ObjectKey, error: unknown): void {
    if (isUnanswered(error)) this.#waiting.add(target);
  }

  stop(): void {
    this.#timer?.cancel();
  }

  #look(): void {
    const { cluster, clock, watches } = this.#options;
    this.#timer?.cancel();
    const now = watches();
    const isOver = now.every(({ connected, cause }) => connected || cause === undefined);
    this.#timer = isOver ? undefined : clock.setTimeout(() => this.#look(), LOOK_MS, { unref: true });
    const cause = causeOfWatches(cluster, now);
    if (sameCause(this.#cause, cause)) return;
    this.#cause = cause;
    this.#wake();
    for (const handler of this.#handlers) handler();
  }

  /** Tries the waiting targets if the cluster can be used; otherwise reports the cause for each of them. */
  #wake(): void {
    const { report, retry } = this.#options;
    for (const target of this.#waiting) {
      if (this.#cause !== undefined) report(target, waitFor(this.#cause));
      else if (this.#isListed) retry(target);
    }
  }
}

/** Why a cluster cannot be used, according to its watches; `undefined`: the watches show no reason. */
export function causeOfWatches(cluster: string, watches: readonly WatchHealth[]): Cause | undefined {
  for (const { collection, connected, synced, silentMs, cause, isExcused } of watches) {
    if (connected || cause === undefined || isExcused === true) continue;
    // A 410 is no outage: the watch lists again.
    if (isGone(cause) || (synced && silentMs <= DISCONNECTED_LIMIT_MS)) continue;
    if (isUnauthorized(cause)) return unauthorized(cluster);
    if (isForbidden(cause)) {
      return because('Forbidden', `no permission to watch ${collection} in the ${cluster} cluster`);
    }
    if (isNotFound(cause)) {
      return because('NotInstalled', `the API of ${collection} is not installed in the ${cluster} cluster`);
    }
    return noConnection(cluster, cause);
  }
  return undefined;
}

/** The outcome of a target whose write failed, if its cluster or namespace caused this; `undefined`: another error. */
export function waitAfter(cluster: string, error: unknown): Waiting | undefined {
  if (isUnanswered(error)) return waitFor(noConnection(cluster, error));
  if (isUnauthorized(error)) return waitFor(unauthorized(cluster));
  if (!isNamespaceMissing(error)) return undefined;
  const message = `the ${cluster} cluster: ${error.statusMessage}`;
  return { state: 'waiting', for: 'namespace', ...namespaceNotFound(message, cluster) };
}

function waitFor(cause: Cause): Waiting {
  return { state: 'waiting', for: 'target', ...cause };
}

function unauthorized(cluster: string): Cause {
  return because('Unauthorized', `the ${cluster} cluster does not accept the credentials`);
}

function noConnection(cluster: string, error: unknown): Cause {
  const code = error instanceof ConnectionError ? error.code : '';
  const problem =
    code === 'ECREDENTIALS'
      ? `there are no credentials for the ${cluster} cluster`
      : TLS_CODE.test(code)
        ? `no TLS connection to the ${cluster} cluster: check the certificates`
        : `the ${cluster} cluster does not answer`;
  return because('ClusterUnreachable', problem);
}
