/**
 * The desired state of the targets of the replicator.
 *
 * - `PullShape`: an object with `replicate-from` gets the data of its source, if the source exists and allows that. Otherwise the object is
 *   cleared, if it was filled before. Its labels, type and other annotations do not change.
 * - `PushShape`: the target of a `replicate-to` is a copy of its source or, if the source has a `replicate-from`, an empty object with the same
 *   `replicate-from`. The annotations of the source are read for each desired state, so a change of them changes the desired state and not
 *   the claim.
 */
import { type Cause, causeOf, nobodyCause, userCause } from '../../../copy/model/cause.ts';
import type {
  DesiredObject,
  DesiredState,
  Failed,
  FieldPatch,
  Shape,
  SourceView,
  Waiting,
} from '../../../copy/model/claim.ts';
import { SECRET } from '../../../copy/model/kind.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import { isMarkedElsewhere } from '../../../copy/plan/marks.ts';
import { rfc3339 } from '../../../runtime/text/rfc3339.ts';
import { COPY_LABEL, MIRROR_OWNER } from '../../common/excluded-metadata.ts';
import {
  type AnnotationNames,
  type Annotations,
  type Place,
  readBool,
  type Refusal,
  sourcePath,
} from './annotations.ts';
import { inheritance, permission } from './permission.ts';
import { readRule, type ReplicationRule, type RuleSettings, unknownOn } from './rule.ts';

const COPY_LABELS: FieldPatch = { [COPY_LABEL]: 'replicator' };

/** Waits for a watch. */
function pending(message: string): DesiredState {
  return { kind: 'wait', for: 'watch', ...nobodyCause('Pending', message) };
}
const UNREAD = pending('the source has not been read yet');
const CHANGING = pending('the source is being evaluated again');

function failed(cause: Cause): DesiredState {
  return { kind: 'fail', ...causeOf(cause) };
}

/**
 * The source's version on a target. An old version alone is no reason to write while the data are equal, because a loop of
 * replicate-from would then never end. If the version is missing, or another client has set it, the target is written.
 */
function versionPatch(
  names: AnnotationNames,
  observed: Observed | undefined,
  version: string,
): { readonly annotations: FieldPatch; readonly bookkeeping: FieldPatch } {
  const mark = { [names.version]: version };
  const ours = observed === undefined || observed.ownAnnotations.includes(names.version);
  return ours ? { annotations: {}, bookkeeping: mark } : { annotations: mark, bookkeeping: {} };
}

/** The bookkeeping of a target without data of a source. */
function cleared({ version, onceVersion, inherited, origin }: AnnotationNames): FieldPatch {
  return { [version]: null, [onceVersion]: null, [inherited]: null, [origin]: null };
}

/** The present bookkeeping of a target as a patch that changes nothing. */
function kept(names: AnnotationNames, { annotations }: Observed): FieldPatch {
  const bookkeeping = [names.at, names.version, names.onceVersion, names.origin, names.inherited];
  return Object.fromEntries(
    bookkeeping.flatMap((name) => (name in annotations ? [[name, annotations[name] ?? '']] : [])),
  );
}

/**
 * Whether a target has data of a source, or bookkeeping of such data. A replicate-once-version alone does not count: the controller
 * never writes it alone, so a user has set it on an object with the user's own data.
 */
export function isFilled(names: AnnotationNames, { annotations }: Observed): boolean {
  return [names.version, names.inherited, names.origin].some((name) => name in annotations);
}

/** Whether `replicate-once` freezes the data of a target: it keeps its data until the source has another `replicate-once-version`. */
export function isFrozen(names: AnnotationNames, source: Annotations, target: Annotations): boolean | Refusal {
  if (!(names.version in target)) return false;
  const bySource = readBool(source, names.once);
  if (typeof bySource === 'object') return bySource;
  const byTarget = readBool(target, names.once);
  if (typeof byTarget === 'object') return byTarget;
  if (!bySource && !byTarget) return false;
  const version = source[names.onceVersion];
  return version === undefined || version === target[names.onceVersion];
}

export class PullShape implements Shape {
  readonly id: string;
  readonly #settings: RuleSettings;
  readonly #target: Place & { readonly kind: string };
  readonly #source: Place;

  constructor(settings: RuleSettings, target: Place & { readonly kind: string }, source: Place) {
    this.#settings = settings;
    this.#target = target;
    this.#source = source;
    this.id = `pull ${source.namespace}/${source.name}`;
  }

  desiredState(source: SourceView, observed: Observed | undefined, now: number): DesiredState {
    if (observed === undefined || !this.#isCurrent(observed)) return UNREAD;
    const refusal = unknownOn(this.#settings, 'the object', observed.annotations) ?? this.#keptByMirror(observed);
    if (refusal !== undefined) return failed(refusal);
    switch (source.state) {
      case 'unknown':
        return UNREAD;
      case 'failed':
        return failed(source);
      case 'missing':
        return this.#cleared(this.#withoutDetails({ ...source, state: 'waiting', for: 'source' }), observed, now);
      case 'present':
        return this.#from(source.annotations, source.version, observed, now);
      default:
        return source satisfies never;
    }
  }

  heldVersion(observed: Observed): string | undefined {
    return observed.annotations[this.#settings.names.version];
  }

  /** A SecretMirror that owns the target, perhaps in another process, would overwrite the data, and both would write again and again. */
  #keptByMirror({ annotations }: Observed): Cause | undefined {
    if (this.#target.kind !== SECRET.kind || isMarkedElsewhere(annotations, this.#target)) return undefined;
    const mirror = annotations[MIRROR_OWNER];
    if (mirror === undefined) return undefined;
    const { from } = this.#settings.names;
    const message = `annotation ${from} is ignored: the object is a copy of SecretMirror ${mirror} (annotation ${MIRROR_OWNER})`;
    return userCause('Conflict', message);
  }

  /** Whether the target still refers to the source of this shape. If not, its rule is evaluated soon. */
  #isCurrent({ annotations }: Observed): boolean {
    const { names } = this.#settings;
    const value = annotations[names.from];
    if (value === undefined) return false;
    return sourcePath(names, this.#target, value) === `${this.#source.namespace}/${this.#source.name}`;
  }

  #from(source: Annotations, version: string, observed: Observed, now: number): DesiredState {
    const { names } = this.#settings;
    const where = `source ${this.#source.namespace}/${this.#source.name}`;
    const refusal = unknownOn(this.#settings, where, source);
    const denial = permission(this.#settings, this.#target, this.#source, source);
    const cancelled = refusal ?? (denial?.result === 'cancelled' ? denial.refusal : undefined);
    if (cancelled !== undefined) {
      // A loop is detected only after all lists allow the target.
      const isAllowedByLists = denial === undefined || denial.refusal.reason === 'Loop';
      return failed(isAllowedByLists ? cancelled : this.#withoutDetails({ state: 'error', ...cancelled }));
    }
    if (denial !== undefined)
      return this.#cleared(this.#withoutDetails({ state: 'error', ...denial.refusal }), observed, now);
    if (names.from in source && !(names.version in source)) {
      const message = `${where} has no data`;
      return this.#cleared({ state: 'waiting', for: 'content', ...userCause('SourceEmpty', message) }, observed, now);
    }
    const once = readBool(observed.annotations, names.once);
    if (typeof once === 'object') return failed(once);
    const bySource = readBool(source, names.once);
    if (typeof bySource === 'object') return failed(bySource);
    const frozen = isFrozen(names, source, observed.annotations);
    if (typeof frozen === 'object') return failed(frozen);
    const passedOn: FieldPatch = {
      [names.inherited]: inheritance(this.#settings, source),
      [names.origin]: once ? null : this.#originOf(source),
    };
    const at = { [names.at]: rfc3339(now) };
    // Labels and type belong to the user.
    const unchanged = { kind: 'be', labels: {}, type: '' } as const;
    if (frozen) return { ...unchanged, annotations: passedOn, bookkeeping: at, data: 'keep' };
    const mark = versionPatch(names, observed, version);
    return {
      ...unchanged,
      annotations: { ...passedOn, ...mark.annotations, [names.onceVersion]: source[names.onceVersion] ?? null },
      bookkeeping: { ...mark.bookkeeping, ...at },
      data: 'source',
    };
  }

  /**
   * The same message for a source that does not exist and for one that does not allow the target. Otherwise users could find out
   * the names of objects in other namespaces. Within the namespace of the target the exact message is used.
   */
  #withoutDetails(remark: Waiting | Failed): Waiting | Failed {
    const { namespace, name } = this.#source;
    if (namespace === this.#target.namespace) return remark;
    const { allowed, allowedNamespaces } = this.#settings.names;
    const message =
      `source ${namespace}/${name} does not exist or does not allow namespace ${this.#target.namespace} ` +
      `(annotations ${allowed} and ${allowedNamespaces})`;
    return { state: 'error', ...userCause('Denied', message) };
  }

  /** The first source of the chain. */
  #originOf(source: Annotations): string {
    const { names } = this.#settings;
    const origin = names.from in source ? source[names.origin] : undefined;
    return origin ?? `${this.#source.namespace}/${this.#source.name}`;
  }

  /** The desired state without data of the source. A target that was never filled keeps the data of its user. */
  #cleared(remark: Waiting | Failed, observed: Observed, now: number): DesiredState {
    const { names } = this.#settings;
    if (!isFilled(names, observed)) {
      return remark.state === 'error' ? failed(remark) : { kind: 'wait', for: remark.for, ...causeOf(remark) };
    }
    const bookkeeping = { [names.at]: rfc3339(now) };
    return { kind: 'be', labels: {}, annotations: cleared(names), bookkeeping, data: 'minimal', remark };
  }
}

export class PushShape implements Shape {
  readonly id: string;
  readonly #settings: RuleSettings;
  readonly #source: Place;
  readonly #owner: string;
  /** The rule of the last annotations: the same for all copies. */
  #last: { readonly annotations: Annotations; readonly rule: ReplicationRule | undefined } | undefined;

  constructor(settings: RuleSettings, source: Place) {
    this.#settings = settings;
    this.#source = source;
    this.#owner = `${source.namespace}/${source.name}`;
    this.id = `push ${this.#owner}`;
  }

  desiredState(source: SourceView, observed: Observed | undefined, now: number): DesiredState {
    if (source.state === 'failed') return failed(source);
    if (source.state !== 'present') return CHANGING;
    const rule = this.#rule(source.annotations);
    if (rule?.kind === 'broken') return failed(rule.refusal);
    if (rule?.kind !== 'push') return CHANGING;
    const refusal = observed && unknownOn(this.#settings, 'the target', observed.annotations);
    if (refusal !== undefined) return failed(refusal);
    return rule.from === undefined
      ? this.#copy(source.annotations, source.version, observed, now)
      : this.#emptyCopy(source.annotations, rule.from, observed, now);
  }

  heldVersion(observed: Observed): string | undefined {
    return observed.annotations[this.#settings.names.version];
  }

  #rule(annotations: Annotations): ReplicationRule | undefined {
    if (this.#last?.annotations !== annotations) {
      this.#last = { annotations, rule: readRule(this.#settings, this.#source, annotations) };
    }
    return this.#last.rule;
  }

  #isOwnCopy(observed: Observed | undefined): observed is Observed {
    return observed?.annotations[this.#settings.names.by] === this.#owner;
  }

  /** A copy with the data of the source. */
  #copy(source: Annotations, version: string, observed: Observed | undefined, now: number): DesiredState {
    const { names } = this.#settings;
    const common = this.#common(source, observed);
    if (this.#isOwnCopy(observed) && !(names.from in observed.annotations)) {
      const frozen = isFrozen(names, source, this.#ownOnce(source, observed));
      if (typeof frozen === 'object') return failed(frozen);
      if (frozen) {
        const annotations = { ...kept(names, observed), ...common.annotations };
        return { ...common, annotations, bookkeeping: {}, data: 'keep' };
      }
    }
    const mark = versionPatch(names, observed, version);
    return {
      ...common,
      annotations: {
        ...common.annotations,
        ...mark.annotations,
        [names.from]: null,
        [names.inherited]: null,
        [names.origin]: null,
        [names.onceVersion]: source[names.onceVersion] ?? null,
      },
      bookkeeping: { ...mark.bookkeeping, [names.at]: rfc3339(now) },
      data: 'source',
    };
  }

  /** A target that is filled by its own `replicate-from`. */
  #emptyCopy(source: Annotations, from: string, observed: Observed | undefined, now: number): DesiredState {
    const { names } = this.#settings;
    const common = this.#common(source, observed);
    const annotations: FieldPatch = { ...common.annotations, [names.from]: from };
    if (observed === undefined) {
      return { ...common, annotations, bookkeeping: { [names.at]: rfc3339(now) }, data: 'minimal' };
    }
    const isOwnCopy = this.#isOwnCopy(observed);
    const isChanged =
      !isOwnCopy ||
      observed.annotations[names.from] !== from ||
      (annotations[names.once] !== undefined && (observed.annotations[names.once] ?? null) !== annotations[names.once]);
    if (!isChanged) {
      return { ...common, annotations: { ...kept(names, observed), ...annotations }, bookkeeping: {}, data: 'keep' };
    }
    // The data stay until the new source is copied.
    return {
      ...common,
      annotations: { ...annotations, ...cleared(names) },
      bookkeeping: { [names.at]: rfc3339(now) },
      data: isOwnCopy ? 'keep' : 'minimal',
    };
  }

  /** Labels are set only at creation. The label of all copies comes with any write, so that no copy is written for the label alone. */
  #common(
    source: Annotations,
    observed: Observed | undefined,
  ): Pick<DesiredObject, 'kind' | 'labels' | 'annotations' | 'bookkeepingLabels'> {
    const { names, createWithLabels } = this.#settings;
    const labels: Record<string, string> = observed === undefined ? { ...createWithLabels } : {};
    for (const key of observed?.ownLabels ?? []) {
      const value = observed?.labels[key];
      if (value !== undefined) labels[key] = value;
    }
    const annotations: Record<string, string | null> = {
      [names.by]: this.#owner,
      [names.allowed]: source[names.allowed] ?? null,
      [names.allowedNamespaces]: source[names.allowedNamespaces] ?? null,
    };
    const once = source[names.once];
    if (once !== undefined) annotations[names.once] = once;
    else if (observed !== undefined && !this.#isUsersOnce(observed)) annotations[names.once] = null;
    return { kind: 'be', labels, annotations, bookkeepingLabels: COPY_LABELS };
  }

  /** The annotations of the target, without a replicate-once that was copied from the source before. */
  #ownOnce(source: Annotations, observed: Observed): Annotations {
    const { names } = this.#settings;
    if (names.once in source || this.#isUsersOnce(observed)) return observed.annotations;
    const { [names.once]: _, ...rest } = observed.annotations;
    return rest;
  }

  #isUsersOnce(observed: Observed): boolean {
    const { names } = this.#settings;
    return names.once in observed.annotations && !observed.ownAnnotations.includes(names.once);
  }
}
