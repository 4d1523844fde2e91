/** The desired object of a target, and its comparison with the existing object. Pure. */
import type { OwnerReference } from '../../kube/api.ts';
import type { Claim, DesiredState, FieldPatch } from '../model/claim.ts';
import { parseResourceKey } from '../model/keys.ts';
import { PLACE_ANNOTATION, placeText } from './marks.ts';
import { type Observed, ownersText } from '../model/observed.ts';

export type DesiredObject = Extract<DesiredState, { kind: 'be' }>;

/** On a target whose last write was changed by the server (see `copy/cluster/write/overwritten.ts`). */
export const OVERWRITTEN_MARK = 'keyferry.dev/overwritten';

/** Adds the target's place: a mark counts only in the place that it was written for. */
export function withPlace(claim: Claim, desired: DesiredState): DesiredState {
  if (desired.kind !== 'be' || claim.mode !== 'own') return desired;
  const place = placeText(parseResourceKey(claim.target));
  return { ...desired, annotations: { ...desired.annotations, [PLACE_ANNOTATION]: place } };
}

/** The desired objects of the owner and of the rule that fills the target, as one. */
export function merge(owned: DesiredObject, filled: DesiredObject): DesiredObject {
  return {
    kind: 'be',
    ...(filled.type === undefined ? {} : { type: filled.type }),
    data: filled.data,
    labels: { ...owned.labels, ...filled.labels },
    annotations: { ...owned.annotations, ...filled.annotations },
    bookkeeping: { ...owned.bookkeeping, ...filled.bookkeeping },
    ...(owned.immutable === undefined ? {} : { immutable: owned.immutable }),
    ...(owned.ownerReferences === undefined ? {} : { ownerReferences: owned.ownerReferences }),
  };
}

/** Removes labels and annotations that Keyferry wrote before and that are no longer desired (the source lost them). */
export function withoutLeftovers(desired: DesiredObject, observed: Observed): DesiredObject {
  const labels = leftovers(observed.ownLabels, observed.labels, desired.labels);
  const annotations = leftovers(observed.ownAnnotations, observed.annotations, {
    ...desired.annotations,
    ...desired.bookkeeping,
  });
  if (labels === undefined && annotations === undefined) return desired;
  return {
    ...desired,
    labels: { ...desired.labels, ...labels },
    annotations: { ...desired.annotations, ...annotations },
  };
}

function leftovers(
  own: readonly string[],
  actual: Readonly<Record<string, string>>,
  desired: FieldPatch,
): Record<string, null> | undefined {
  const left = own.filter((key) => Object.hasOwn(actual, key) && !Object.hasOwn(desired, key));
  return left.length === 0 ? undefined : Object.fromEntries(left.map((key) => [key, null]));
}

/** Whether labels, annotations and owner references are as desired; bookkeeping does not count. */
export function matches(desired: DesiredObject, observed: Observed): boolean {
  const { labels, annotations, ownerReferences } = desired;
  if (ownerReferences !== undefined && !hasOwners(observed, ownerReferences)) return false;
  return matchesPatch(labels, observed.labels) && matchesPatch(annotations, observed.annotations);
}

export function hasOwners({ owners }: Observed, references: readonly OwnerReference[]): boolean {
  return (owners ?? '') === ownersText(references);
}

function matchesPatch(desired: FieldPatch, actual: Readonly<Record<string, string>>): boolean {
  for (const key in desired) {
    const value = desired[key];
    if (value === null ? Object.hasOwn(actual, key) : actual[key] !== value) return false;
  }
  return true;
}
