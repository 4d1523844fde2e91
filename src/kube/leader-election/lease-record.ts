/**
 * Reads a Lease and decides on the next step of the election. Pure.
 *
 * Only our own clock counts: a Lease has run out when its record has not *changed*, as seen from here, for its duration (the
 * rule of client-go's leaderelection). The times in the record are informative.
 */
import type { KubeObject } from '../api.ts';

/** `coordination.k8s.io/v1` Lease, as far as it is used. Writes keep unknown fields. */
export interface Lease extends KubeObject {
  readonly spec?: LeaseSpec;
}

export interface LeaseSpec {
  /** Empty or absent: released. */
  readonly holderIdentity?: string | null;
  readonly leaseDurationSeconds?: number | null;
  /** RFC 3339 with microseconds. */
  readonly acquireTime?: string | null;
  readonly renewTime?: string | null;
  readonly leaseTransitions?: number | null;
}

/** When the lease was last seen to change, by our own monotonic clock. */
export interface LeaseObservation {
  readonly fingerprint: string;
  readonly at: number;
}

export type ElectionStep =
  | { readonly do: 'create' }
  /** Ours already. */
  | { readonly do: 'renew'; readonly lease: Lease }
  /** Released, or run out. */
  | { readonly do: 'take'; readonly lease: Lease }
  /** Another replica's; `until` is when it runs out if it is not renewed (monotonic ms). */
  | { readonly do: 'wait'; readonly holder: string; readonly until: number };

/** Notes whether the lease changed since `before`. */
export function observe(lease: Lease, before: LeaseObservation | undefined, now: number): LeaseObservation {
  const { holderIdentity, leaseDurationSeconds, acquireTime, renewTime, leaseTransitions } = lease.spec ?? {};
  const fingerprint = JSON.stringify([
    lease.metadata.uid,
    holderIdentity,
    leaseDurationSeconds,
    acquireTime,
    renewTime,
    leaseTransitions,
  ]);
  return before?.fingerprint === fingerprint ? before : { fingerprint, at: now };
}

export interface StepFacts {
  /** As read now; `undefined` if there is none. */
  readonly lease: Lease | undefined;
  readonly observation: LeaseObservation | undefined;
  readonly identity: string;
  /** For a record that names no duration, ms. */
  readonly defaultDurationMs: number;
  /** Monotonic ms. */
  readonly now: number;
}

export function nextStep({ lease, observation, identity, defaultDurationMs, now }: StepFacts): ElectionStep {
  if (lease === undefined) return { do: 'create' };
  const holder = holderOf(lease);
  if (holder === identity) return { do: 'renew', lease };
  if (holder === undefined) return { do: 'take', lease };
  const seconds = lease.spec?.leaseDurationSeconds;
  const durationMs = typeof seconds === 'number' ? seconds * 1000 : defaultDurationMs;
  const until = (observation?.at ?? now) + durationMs;
  return now >= until ? { do: 'take', lease } : { do: 'wait', holder, until };
}

/** The holder's identity; `undefined` for a released lease. */
export function holderOf(lease: Lease): string | undefined {
  const holder = lease.spec?.holderIdentity;
  return typeof holder === 'string' && holder !== '' ? holder : undefined;
}

/** A first Lease, held by `identity`. `now` is the wall clock. */
export function newLease(namespace: string, name: string, identity: string, durationMs: number, now: number): unknown {
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { namespace, name },
    spec: held(identity, durationMs, now, { leaseTransitions: 0 }),
  };
}

export function renewedLease(lease: Lease, identity: string, durationMs: number, now: number): unknown {
  const { acquireTime, leaseTransitions }: LeaseSpec = lease.spec ?? {};
  const kept = { ...(acquireTime && { acquireTime }), leaseTransitions: leaseTransitions ?? 0 };
  return { ...lease, spec: { ...lease.spec, ...held(identity, durationMs, now, kept) } };
}

export function takenLease(lease: Lease, identity: string, durationMs: number, now: number): unknown {
  const leaseTransitions = (lease.spec?.leaseTransitions ?? 0) + 1;
  return { ...lease, spec: { ...lease.spec, ...held(identity, durationMs, now, { leaseTransitions }) } };
}

/** As client-go writes it with ReleaseOnCancel: no holder, and a duration of one second. */
export function releasedLease(lease: Lease, now: number): unknown {
  const times = { acquireTime: microTime(now), renewTime: microTime(now) };
  return { ...lease, spec: { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, ...times } };
}

function held(holderIdentity: string, durationMs: number, now: number, kept: LeaseSpec): LeaseSpec {
  return {
    holderIdentity,
    leaseDurationSeconds: Math.ceil(durationMs / 1000),
    acquireTime: microTime(now),
    renewTime: microTime(now),
    ...kept,
  };
}

/** The API's MicroTime: exactly six digits of a second. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z');
}
