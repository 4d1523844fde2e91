/** Decides which write, if any, brings a target into its desired state. Pure. */
import { because, causeOf } from '../model/cause.ts';
import type { Claim, DesiredState, SourceView, DesiredObject, FieldPatch, Merged } from '../model/claim.ts';
import { listedIn } from '../model/claim.ts';
import { joinKeys, splitKeys } from '../model/content.ts';
import { isForbiddenType } from '../model/kind.ts';
import { contentVersion, type Observed, ownersText, PLACE_ANNOTATION, placeText } from '../model/observed.ts';
import { fillerOf, outcomeOf, partnersOf } from './contest.ts';
import type { Facts, Plan, Remarks } from './facts.ts';
import type { OwnerReference } from '../../kube/api.ts';
import { parseResourceKey, type ResourceKey } from '../model/keys.ts';

/** @param observed the metadata of the target; `undefined`: the target does not exist */
export function planWrite(
  facts: Facts,
  claim: Claim,
  view: SourceView,
  observed: Observed | undefined,
  verb: 'create' | 'update' | 'replace',
): Plan {
  const alone = withPlace(facts.target, claim, claim.shape.desiredState(view, observed, facts.now));
  if (alone.kind !== 'be') return planWithoutWrite(alone);
  const isUpdate = observed !== undefined && verb === 'update';
  // The marks of a rule, and the keys beside its own, go only after the rule was asked, as a copy does.
  if (isUpdate && claim.mode === 'own' && facts.leftBy.length > 0 && facts.orphanAction === undefined)
    return { do: 'need', fact: 'owner' };
  const together = partnersOf(facts, claim).reduce((one, { desired: other }) => joined(one, other), alone);
  const owned = isUpdate && claim.mode === 'own' ? withOthers(facts, together, observed) : together;
  const combined = claim.mode === 'own' && verb === 'update' ? withFiller(facts, claim, owned, observed) : undefined;
  const { from, remarks } = combined ?? { from: claim, remarks: remarkOn(claim, owned) };
  let desired = combined?.desired ?? owned;
  const isNew = observed === undefined || verb === 'replace';
  if (desired.data === 'minimal' && desired.type === undefined) {
    const type = isNew ? facts.fingerprintOf(claim)?.type : facts.type;
    if (type === undefined) return isNew ? { do: 'need', fact: 'source', claim } : { do: 'need', fact: 'target' };
    desired = { ...desired, type };
  }
  if (desired.data === 'source') {
    const fingerprint = facts.fingerprintOf(from);
    if (fingerprint === undefined) return { do: 'need', fact: 'source', claim: from };
    const { type } = fingerprint;
    if (isUnwanted(type, desired) || ((desired.type ?? '') === '' && isRefused(type, facts))) return refusedType(type);
    if (desired.merged !== undefined) {
      if (splitKeys(fingerprint.keys) === undefined) return { do: 'fail', ...desired.merged.tooMany };
      desired = { ...desired, annotations: { ...desired.annotations, [desired.merged.listIn]: fingerprint.keys } };
    }
  }
  const type = desired.type !== undefined && desired.type !== '' ? desired.type : facts.type;
  if (type !== undefined && (isRefused(type, facts) || isUnwanted(type, desired))) return refusedType(type);
  if (isNew) return { do: verb, claim: from, desired, withData: true, remarks };
  const data =
    desired.data === 'source'
      ? compareData(facts, from, desired, observed)
      : desired.data === 'keep'
        ? 'current'
        : 'stale';
  if (data === 'source') return { do: 'need', fact: data, claim: from };
  if (data === 'target') return { do: 'need', fact: data, ...partIn(facts, from, desired, observed) };
  const isCopy = claim.mode === 'own' || (claim.mode === 'release' && desired.merged?.isUsers !== true);
  if (isCopy && facts.orphanAction !== 'keep') desired = withoutLeftovers(desired, observed);
  if (Object.hasOwn(observed.annotations, OVERWRITTEN_MARK)) {
    desired = { ...desired, annotations: { ...desired.annotations, [OVERWRITTEN_MARK]: null } };
  }
  const immutable = compareImmutable(desired, facts);
  if (immutable === 'target') return { do: 'need', fact: immutable };
  if (data === 'current' && immutable === 'current' && matches(desired, observed)) return { do: 'nothing', remarks };
  if (data !== 'current' && staysImmutable(desired, facts)) return { do: 'fail', ...IMMUTABLE_CHANGED };
  const onlyMetadata = data === 'current' && immutable === 'current' && desired.immutable !== undefined;
  if (data === 'frozen' || immutable === 'frozen' || (facts.cannotUpdate && !onlyMetadata)) {
    if (claim.mode === 'own' && !hasOthers(facts, observed, desired.merged))
      return { do: 'replace', claim: from, desired, withData: true, remarks };
    return {
      do: 'fail',
      ...because('Immutable'),
    };
  }
  return { do: 'update', claim: from, desired, withData: data === 'stale', remarks };
}

/** The keys of the target to compare with the source: those that are ours, or will be. */
function partIn(
  facts: Facts,
  claim: Claim,
  { merged, data }: DesiredObject,
  observed: Observed,
): { readonly part?: readonly string[] } {
  if (merged === undefined || data !== 'source') return {};
  const wanted = splitKeys(facts.fingerprintOf(claim)?.keys ?? '') ?? [];
  return { part: [...new Set([...wanted, ...listedIn(merged, observed)])] };
}

/** As long as a copy has keys of others, it stays merged, with the marks of the rule that let it be, after that rule. */
function withOthers(facts: Facts, owned: DesiredObject, observed: Observed): DesiredObject {
  const { orphanAction: action, now } = facts;
  if (typeof action !== 'object' || owned.merged !== undefined) return owned;
  const rest = action.shape.desiredState(facts.viewOf(action), observed, now);
  if (rest.kind !== 'be' || !hasOthers(facts, observed, rest.merged)) return owned;
  const marks = Object.entries(observed.annotations).filter(([name]) => Object.hasOwn(rest.annotations, name));
  return {
    ...owned,
    ...(rest.merged && { merged: rest.merged }),
    annotations: { ...Object.fromEntries(marks), ...owned.annotations },
  };
}

/** Whether the target is shared: an object of a user, or a copy with keys that are not ours, or not known. */
export function hasOthers({ held }: Facts, observed: Observed, merged: Merged | undefined): boolean {
  if (merged === undefined) return false;
  if (merged.isUsers === true) return true;
  // No other client has written data.
  if (observed.ownKeys !== undefined) return false;
  if (held?.version !== contentVersion(observed)) return true;
  const ours = new Set(listedIn(merged, observed));
  return splitKeys(held.fingerprint.keys)?.every((key) => ours.has(key)) !== true;
}

const NO_DATA: Plan = {
  do: 'wait',
  for: 'content',
  ...because('NoData'),
};

/** Plans an entry in Vault. Only its content is compared with `held`, which comes from the last read or write. */
export function planUnmarked(facts: Facts, claim: Claim, view: SourceView): Plan {
  const desired = claim.shape.desiredState(view, undefined, facts.now);
  if (desired.kind !== 'be') return planWithoutWrite(desired);
  const fingerprint = facts.fingerprintOf(claim);
  if (fingerprint === undefined) return { do: 'need', fact: 'source', claim };
  if (fingerprint.keys === '') return NO_DATA;
  const isHeld = facts.held?.fingerprint.digest === fingerprint.digest;
  if (!isHeld) return { do: 'update', claim, desired, withData: true };
  return facts.presence === 'unknown' ? { do: 'need', fact: 'target' } : { do: 'nothing' };
}

const IMMUTABLE_CHANGED = because(
  'Immutable',
  'the data or the type has changed, but the object is immutable; remove `immutable` from it, or create it again',
);

/** Whether an immutable Secret must stay: the API server refuses other data, and the rule wants it immutable. */
function staysImmutable(desired: DesiredObject, { immutable, isCustom }: Facts): boolean {
  return desired.immutable === true && immutable === true && isCustom !== true;
}

/** `frozen`: the Secret is immutable and can never be mutable again. `target`: the target must be read first. */
function compareImmutable(
  desired: DesiredObject,
  { immutable, isCustom }: Facts,
): 'current' | 'stale' | 'frozen' | 'target' {
  if (desired.immutable === undefined || immutable === desired.immutable) return 'current';
  if (immutable === undefined) return 'target';
  return immutable && isCustom !== true ? 'frozen' : 'stale';
}

/** Whether Keyferry must not write a Secret of this type. A custom resource of this type only describes a Secret. */
function isRefused(type: string, { isCustom }: Facts): boolean {
  return isCustom !== true && isForbiddenType(type);
}

function isUnwanted(type: string, { refusedTypes }: DesiredObject): boolean {
  return refusedTypes !== undefined && type.startsWith(refusedTypes);
}

function remarkOn({ mode }: Claim, { remark }: DesiredObject): Remarks {
  return { [mode === 'own' ? 'own' : 'fill']: remark };
}

/**
 * Merges the owner's desired object with that of the claim that fills the data. `undefined`: nothing can be filled now.
 * The owner's metadata must be written first, because the filling claim's source is named in annotations.
 */
function withFiller(
  facts: Facts,
  claim: Claim,
  owned: DesiredObject,
  observed: Observed | undefined,
): { readonly desired: DesiredObject; readonly from: Claim; readonly remarks: Remarks } | undefined {
  const filler = fillerOf(facts)?.claim;
  if (filler === undefined || observed === undefined || owned.data !== 'keep' || !matches(owned, observed)) {
    return undefined;
  }
  const own = owned.remark;
  const filled: DesiredState = filler.shape.desiredState(facts.viewOf(filler), observed, facts.now);
  if (filled.kind === 'be') {
    return { desired: merge(owned, filled), from: filler, remarks: { own, fill: filled.remark } };
  }
  return { desired: owned, from: claim, remarks: { own, fill: outcomeOf(planWithoutWrite(filled)) } };
}

/** The plan if the desired state leaves the target unchanged: `wait` or `fail`. */
export function planWithoutWrite(
  desired: Exclude<DesiredState, DesiredObject>,
): Extract<Plan, { do: 'wait' | 'fail' }> {
  const cause = causeOf(desired);
  return desired.kind === 'wait' ? { do: 'wait', for: desired.for, ...cause } : { do: 'fail', ...cause };
}

function refusedType(type: string): Plan {
  return { do: 'fail', ...because('RefusedType', `Secrets of type ${type} are never copied`) };
}

/**
 * Whether the target has the content of its source, with as few reads as possible: `current`, `stale`, `frozen` (the
 * type differs and cannot be changed); or which must be read first, `source` or `target`.
 */
function compareData(
  facts: Facts,
  claim: Claim,
  desired: DesiredObject,
  observed: Observed,
): 'current' | 'stale' | 'frozen' | 'source' | 'target' {
  const fingerprint = facts.fingerprintOf(claim);
  if (fingerprint === undefined) return 'source';
  const { held } = facts;
  if (held?.version === contentVersion(observed)) {
    if (claim.mode === 'own' && desired.type !== '') {
      // The last write shows the content, but not the type: a Secret of another type may have filled the target.
      if (facts.type === undefined) return 'target';
      if ((desired.type ?? fingerprint.type) !== facts.type) return facts.isCustom === true ? 'stale' : 'frozen';
    }
    if (desired.merged === undefined) return fingerprint.digest === held.fingerprint.digest ? 'current' : 'stale';
    if (held.part === undefined) return 'target';
    return fingerprint.digest === held.part && isListed(desired.merged, observed, fingerprint.keys)
      ? 'current'
      : 'stale';
  }
  // This process has not written the target. It counts as current without a read, if its metadata has the source's
  // version and shows no other client's change of data. Only equal keys show that no key was removed.
  if (held === undefined && isUntouched(facts, claim, observed) && observed.ownKeys === fingerprint.keys) {
    return desired.merged === undefined || isListed(desired.merged, observed, fingerprint.keys) ? 'current' : 'target';
  }
  return 'target';
}

/** Whether the target lists the keys of its source. */
function isListed(merged: Merged, observed: Observed, keys: string): boolean {
  return merged.listIn in observed.annotations && joinKeys(listedIn(merged, observed)) === keys;
}

function isUntouched(facts: Facts, claim: Claim, observed: Observed): boolean {
  const view = facts.viewOf(claim);
  // If the target is a copy of another rule, its annotation may have the version of another source.
  if (claim.mode === 'own' && facts.markedBy !== claim.owner.key) return false;
  return (
    observed.ownKeys !== undefined &&
    view.state === 'present' &&
    claim.shape.heldVersion(observed) === view.version &&
    !Object.hasOwn(observed.annotations, OVERWRITTEN_MARK)
  );
}

/** Annotation of a target if the server changed Keyferry's last write (`copy/cluster/write/object-writer.ts`). */
export const OVERWRITTEN_MARK = 'keyferry.dev/overwritten';

/** Adds `keyferry.dev/target`, because a mark counts only on the object that this annotation names. */
export function withPlace(target: ResourceKey, { mode }: Claim, desired: DesiredState): DesiredState {
  if (desired.kind !== 'be' || mode !== 'own') return desired;
  const place = placeText(parseResourceKey(target));
  // What loses its marks loses its place, too.
  return { ...desired, annotations: { [PLACE_ANNOTATION]: place, ...desired.annotations } };
}

/** The desired object with the marks of both, and with all that one of them copies of the source. */
function joined(one: DesiredObject, other: DesiredObject): DesiredObject {
  const labels = union(one.labels, other.labels);
  // A label that one of them requires is not only bookkeeping for the other.
  const inBook = Object.entries(union(one.bookkeepingLabels ?? {}, other.bookkeepingLabels ?? {}));
  return {
    ...one,
    labels,
    annotations: union(one.annotations, other.annotations),
    // Keys of other clients stay, if one of them lets them stay.
    ...((one.merged ?? other.merged) === undefined ? {} : { merged: one.merged ?? other.merged }),
    bookkeeping: union(one.bookkeeping, other.bookkeeping),
    bookkeepingLabels: Object.fromEntries(inBook.filter(([key]) => !Object.hasOwn(labels, key))),
  };
}

function union(one: FieldPatch, other: FieldPatch): FieldPatch {
  const given = Object.entries(one).filter(([key, value]) => value !== null || !Object.hasOwn(other, key));
  return { ...other, ...Object.fromEntries(given) };
}

/** Merges the desired objects of the owner and of the rule that fills the target. */
export function merge(owned: DesiredObject, filled: DesiredObject): DesiredObject {
  return {
    kind: 'be',
    ...(filled.type === undefined ? {} : { type: filled.type }),
    data: filled.data,
    labels: { ...owned.labels, ...filled.labels },
    annotations: { ...owned.annotations, ...filled.annotations },
    bookkeeping: { ...owned.bookkeeping, ...filled.bookkeeping },
    bookkeepingLabels: { ...owned.bookkeepingLabels, ...filled.bookkeepingLabels },
    ...(filled.isSourceEmpty === true ? { isSourceEmpty: true } : {}),
    ...(filled.refusedTypes === undefined ? {} : { refusedTypes: filled.refusedTypes }),
    ...(owned.immutable === undefined ? {} : { immutable: owned.immutable }),
    ...(owned.ownerReferences === undefined ? {} : { ownerReferences: owned.ownerReferences }),
  };
}

/** Removes labels and annotations that Keyferry wrote but no longer wants, for example because the source lost them. */
export function withoutLeftovers(desired: DesiredObject, observed: Observed): DesiredObject {
  // The index does not keep all that Keyferry wrote, but a write that knows it removes it.
  const labels = leftovers(observed.ownLabels, { ...desired.labels, ...desired.bookkeepingLabels });
  const annotations = leftovers(observed.ownAnnotations, { ...desired.annotations, ...desired.bookkeeping });
  if (labels === undefined && annotations === undefined) return desired;
  return {
    ...desired,
    labels: { ...desired.labels, ...labels },
    annotations: { ...desired.annotations, ...annotations },
  };
}

function leftovers(own: readonly string[], desired: FieldPatch): Record<string, null> | undefined {
  const left = own.filter((key) => !Object.hasOwn(desired, key));
  return left.length === 0 ? undefined : Object.fromEntries(left.map((key) => [key, null]));
}

/** Whether labels, annotations and owner references are as desired. Bookkeeping is not compared. */
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
