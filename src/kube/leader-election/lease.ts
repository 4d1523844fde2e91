/**
 * The Lease of an election: what a replica does next, and what it writes. Pure.
 * Only this process's clock counts. It measures how long this process has seen no *change* of the Lease's record. After
 * its duration without a change, a Lease has run out (the rule of client-go). The times in the record are for people.
 */
import type { KubeObject } from '../api.ts';

/** `coordination.k8s.io/v1` Lease, with the fields that Keyferry uses. Writes keep all other fields. */
export interface Lease extends KubeObject {
  readonly spec?: LeaseSpec;
}

export interface LeaseSpec {
  /** Empty or absent: the Lease was released. */
  readonly holderIdentity?: string | null;
  readonly leaseDurationSeconds?: number | null;
  /** RFC 3339 with microseconds. */
  readonly acquireTime?: string | null;
  readonly renewTime?: string | null;
  readonly leaseTransitions?: number | null;
}

/** When this process last saw the Lease change, monotonic ms. */
export interface LeaseObservation {
  readonly fingerprint: string;
  readonly at: number;
}

/** `create`: there is no Lease. `renew`: this process holds it. `take`: the Lease was released or has run out. */
export type HoldingStep = { readonly do: 'create' } | { readonly do: 'renew' | 'take'; readonly lease: Lease };

export type ElectionStep =
  | HoldingStep
  /** The Lease is another replica's. `until`: when it runs out without a renewal, monotonic ms. */
  | { readonly do: 'wait'; readonly holder: string; readonly until: number };

/** Returns `before` if the Lease has not changed since `before`, else a new observation. */
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

interface StepFacts {
  /** The Lease as read now; `undefined` if there is none. */
  readonly lease: Lease | undefined;
  readonly observation: LeaseObservation | undefined;
  readonly identity: string;
  /** Duration of a Lease whose record has no duration, ms. */
  readonly defaultDurationMs: number;
  /** Monotonic ms. */
  readonly now: number;
}

export function nextStep(facts: StepFacts): ElectionStep {
  const { lease, observation, identity, defaultDurationMs, now } = facts;
  if (lease === undefined) return { do: 'create' };
  const holder = holderOf(lease);
  if (holder === identity) return { do: 'renew', lease };
  if (holder === undefined) return { do: 'take', lease };
  const seconds = lease.spec?.leaseDurationSeconds;
  const durationMs = typeof seconds === 'number' ? seconds * 1000 : defaultDurationMs;
  const until = (observation?.at ?? now) + durationMs;
  return now >= until ? { do: 'take', lease } : { do: 'wait', holder, until };
}

/** The holder's identity; `undefined`: the Lease was released. */
export function holderOf(lease: Lease): string | undefined {
  const holder = lease.spec?.holderIdentity;
  return typeof holder === 'string' && holder !== '' ? holder : undefined;
}

interface LeaseHolder {
  readonly namespace: string;
  readonly name: string;
  readonly identity: string;
  /** Duration that is written into the Lease, ms. */
  readonly durationMs: number;
}

/** The Lease object that the step writes. @param now wall clock, ms */
export function heldLease(step: HoldingStep, holder: LeaseHolder, now: number): unknown {
  const { namespace, name, identity, durationMs } = holder;
  const first = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { namespace, name } };
  const lease = step.do === 'create' ? first : step.lease;
  const before: LeaseSpec = step.do === 'create' ? {} : (step.lease.spec ?? {});
  const spec = {
    holderIdentity: identity,
    leaseDurationSeconds: Math.ceil(durationMs / 1000),
    acquireTime: (step.do === 'renew' && before.acquireTime) || microTime(now),
    renewTime: microTime(now),
    leaseTransitions: (before.leaseTransitions ?? 0) + (step.do === 'take' ? 1 : 0),
  };
  return { ...lease, spec: { ...before, ...spec } };
}

/** The Lease without a holder and with a duration of one second, as client-go writes it (ReleaseOnCancel). */
export function releasedLease(lease: Lease, now: number): unknown {
  const times = { acquireTime: microTime(now), renewTime: microTime(now) };
  return { ...lease, spec: { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, ...times } };
}

/** Time in the format MicroTime of the API, which has exactly six digits after the second. */
export function microTime(ms: number): string {
  return new Date(ms).toISOString().replace('Z', '000Z');
}
