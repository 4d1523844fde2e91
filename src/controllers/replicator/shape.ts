/**
 * What targets look like, as k8s-replicator makes them. Pure.
 *
 * - `replicate-to`: a copy of the source. If the source itself has a `replicate-from`, the target is an empty object with
 *   the same `replicate-from`, which its own rule then fills.
 * - `replicate-from`: if the source exists and allows the copy, the object gets its data. Otherwise data that came from a
 *   source is removed. Labels, type and other annotations stay.
 */
import { because, type Cause, causeOf } from '../../copy/model/cause.ts';
import {
  type DesiredObject,
  type DesiredState,
  type Failed,
  failing,
  type FieldPatch,
  type Waiting,
} from '../../copy/model/claim.ts';
import { SECRET } from '../../copy/model/kind.ts';
import { COPY_LABEL, isMarkedElsewhere, type Observed, placeText } from '../../copy/model/observed.ts';
import { rfc3339 } from '../../runtime/text/texts.ts';
import { type PresentSource, PullShape, PushedShape } from '../common/annotated/shapes.ts';
import type { Place } from '../common/annotated/values.ts';
import { MIRROR_OWNER } from '../common/excluded-metadata.ts';
import { inheritance, permission } from './permission.ts';
import {
  type AnnotationNames,
  type Annotations,
  readBool,
  type RuleSettings,
  ruleText,
  sourcePath,
  unknownOn,
} from './words.ts';

/**
 * The patch of `replicated-from-version`. If only the version differs, nothing is written: otherwise two objects that
 * copy each other would be written forever. A missing annotation, or one of another client, does cause a write.
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

/** The patch that removes the bookkeeping of a target that no longer has data of a source. */
function cleared({ version, onceVersion, inherited, origin }: AnnotationNames): FieldPatch {
  return { [version]: null, [onceVersion]: null, [inherited]: null, [origin]: null };
}

/** A patch that sets the bookkeeping annotations to their present values, so that a write keeps them. */
function kept(names: AnnotationNames, { annotations }: Observed): FieldPatch {
  const bookkeeping = new Set([names.at, names.version, names.onceVersion, names.origin, names.inherited]);
  return Object.fromEntries(Object.entries(annotations).filter(([name]) => bookkeeping.has(name)));
}

/** Whether `replicate-once` protects a target's data. A new `replicate-once-version` on the source ends this. */
export function isFrozen(names: AnnotationNames, source: Annotations, target: Annotations): boolean | Cause {
  if (!(names.version in target)) return false;
  const bySource = readBool(source, names.once);
  if (typeof bySource === 'object') return bySource;
  const byTarget = readBool(target, names.once);
  if (typeof byTarget === 'object') return byTarget;
  if (!bySource && !byTarget) return false;
  const version = source[names.onceVersion];
  return version === undefined || version === target[names.onceVersion];
}

/** A target of `replicate-to`. */
export class PushShape extends PushedShape {
  readonly #settings: RuleSettings;
  readonly #owner: string;
  readonly #from: string | undefined;

  /**
   * @param annotations of the source
   * @param from the path in the `replicate-from` of the source
   */
  constructor(settings: RuleSettings, source: Place, annotations: Annotations, from: string | undefined) {
    const owner = placeText(source);
    super(`push ${owner}`, ruleText(settings, annotations), (now) => ruleText(settings, now));
    this.#settings = settings;
    this.#owner = owner;
    this.#from = from;
  }

  protected copyOf(source: PresentSource, observed: Observed | undefined, now: number): DesiredState {
    const refusal = observed && unknownOn(this.#settings, 'the target', observed.annotations);
    if (refusal !== undefined) return failing(refusal);
    return this.#from === undefined
      ? this.#copy(source, observed, now)
      : this.#emptyCopy(source.annotations, this.#from, observed, now);
  }

  heldVersion(observed: Observed): string | undefined {
    return observed.annotations[this.#settings.names.version];
  }

  #isOwnCopy(observed: Observed | undefined): observed is Observed {
    return observed?.annotations[this.#settings.names.by] === this.#owner;
  }

  /** The desired state of a copy with the source's data. */
  #copy({ annotations: source, version }: PresentSource, observed: Observed | undefined, now: number): DesiredState {
    const { names } = this.#settings;
    const common = this.#common(source, observed);
    if (this.#isOwnCopy(observed) && !(names.from in observed.annotations)) {
      const frozen = isFrozen(names, source, this.#ownOnce(source, observed));
      if (typeof frozen === 'object') return failing(frozen);
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

  /** The desired state of a target that gets a `replicate-from` in place of data. */
  #emptyCopy(source: Annotations, from: string, observed: Observed | undefined, now: number): DesiredState {
    const { names } = this.#settings;
    const common = this.#common(source, observed);
    const annotations: FieldPatch = { ...common.annotations, [names.from]: from };
    const isOwnCopy = this.#isOwnCopy(observed);
    const once = annotations[names.once];
    const isSame =
      isOwnCopy &&
      observed.annotations[names.from] === from &&
      (once === undefined || once === (observed.annotations[names.once] ?? null));
    if (isSame)
      return { ...common, annotations: { ...kept(names, observed), ...annotations }, bookkeeping: {}, data: 'keep' };
    return {
      ...common,
      annotations: { ...annotations, ...cleared(names) },
      bookkeeping: { [names.at]: rfc3339(now) },
      // The old data stays until the data of the new source is copied.
      data: isOwnCopy ? 'keep' : 'minimal',
    };
  }

  /** What copies and empty copies share. Labels are set only at creation. A missing copy label alone is not written. */
  #common(
    source: Annotations,
    observed: Observed | undefined,
  ): Pick<DesiredObject, 'kind' | 'labels' | 'annotations' | 'bookkeepingLabels'> {
    const { names, createWithLabels } = this.#settings;
    const labels: Record<string, string> = observed === undefined ? { ...createWithLabels } : {};
    for (const key of observed?.ownLabels ?? []) {
      const value = observed?.labels[key];
      // The copy label may have the name of another controller that shared the copy.
      if (value !== undefined && key !== COPY_LABEL) labels[key] = value;
    }
    const annotations: Record<string, string | null> = {
      [names.by]: this.#owner,
      [names.allowed]: source[names.allowed] ?? null,
      [names.allowedNamespaces]: source[names.allowedNamespaces] ?? null,
    };
    const once = source[names.once];
    if (once !== undefined) annotations[names.once] = once;
    else if (observed !== undefined && !this.#isUsersOnce(observed)) annotations[names.once] = null;
    return { kind: 'be', labels, annotations, bookkeepingLabels: { [COPY_LABEL]: 'replicator' } };
  }

  /** The target's annotations, without a `replicate-once` that an earlier write copied from the source. */
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

/** An object with `replicate-from`. */
export class FilledShape extends PullShape {
  readonly #settings: RuleSettings;
  readonly #kind: string;

  constructor(settings: RuleSettings, target: Place & { readonly kind: string }, source: Place) {
    super({ target, source, permission: settings.names, version: settings.names.version });
    this.#settings = settings;
    this.#kind = target.kind;
  }

  protected sourceIn(annotations: Annotations): string | undefined {
    const { names } = this.#settings;
    const value = annotations[names.from];
    const path = value === undefined ? undefined : sourcePath(names, this.target, value);
    return typeof path === 'string' ? path : undefined;
  }

  protected override refused(observed: Observed): DesiredState | undefined {
    const refusal = unknownOn(this.#settings, 'the object', observed.annotations) ?? this.#keptByMirror(observed);
    return refusal && failing(refusal);
  }

  protected override withoutSource(...[source, observed, now]: Parameters<PullShape['withoutSource']>): DesiredState {
    return this.#cleared(this.#withoutDetails({ ...source, state: 'waiting', for: 'source' }), observed, now);
  }

  /** The conflict if the target is also a copy of a SecretMirror: both would overwrite it. `undefined`: no conflict. */
  #keptByMirror({ annotations }: Observed): Cause | undefined {
    if (this.#kind !== SECRET.kind || isMarkedElsewhere(annotations, this.target)) return undefined;
    const mirror = annotations[MIRROR_OWNER];
    if (mirror === undefined) return undefined;
    const { from } = this.#settings.names;
    const message = `annotation ${from} is ignored: the object is a copy of SecretMirror ${mirror} (annotation ${MIRROR_OWNER})`;
    return because('Conflict', message);
  }

  protected from({ annotations: source, version }: PresentSource, observed: Observed, now: number): DesiredState {
    const { names } = this.#settings;
    const where = `source ${this.path}`;
    const refusal = unknownOn(this.#settings, where, source);
    const denial = permission(this.#settings, this.target, this.path, source);
    const cancelled = refusal ?? (denial?.result === 'denied' ? undefined : denial?.refusal);
    if (cancelled !== undefined) {
      const isAllowedByLists = denial === undefined || denial.result === 'loop';
      return failing(isAllowedByLists ? cancelled : this.#withoutDetails({ state: 'error', ...cancelled }));
    }
    const isEmpty = names.from in source && !(names.version in source);
    if (denial !== undefined)
      return this.#cleared(this.#withoutDetails({ state: 'error', ...denial.refusal }), observed, now, isEmpty);
    if (isEmpty) {
      const message = `${where} has no data`;
      return this.#cleared(
        { state: 'waiting', for: 'content', ...because('SourceEmpty', message) },
        observed,
        now,
        true,
      );
    }
    const once = readBool(observed.annotations, names.once);
    if (typeof once === 'object') return failing(once);
    const bySource = readBool(source, names.once);
    if (typeof bySource === 'object') return failing(bySource);
    const frozen = isFrozen(names, source, observed.annotations);
    if (typeof frozen === 'object') return failing(frozen);
    const passedOn: FieldPatch = {
      [names.inherited]: inheritance(this.#settings, source),
      [names.origin]: once ? null : this.#originOf(source),
    };
    const at = { [names.at]: rfc3339(now) };
    // Labels and type belong to the user, so they stay.
    const unchanged = { kind: 'be', labels: {}, type: '' } as const;
    if (frozen) return { ...unchanged, annotations: passedOn, bookkeeping: at, data: 'keep' };
    const mark = versionPatch(names, observed, version);
    return {
      ...unchanged,
      annotations: { ...passedOn, ...mark.annotations, [names.onceVersion]: source[names.onceVersion] ?? null },
      bookkeeping: { ...mark.bookkeeping, ...at },
      data: 'source',
      refusesLoops: true,
    };
  }

  /**
   * A message that does not show whether the source exists or denies permission: otherwise users could find out names
   * of objects in other namespaces. If source and target share a namespace, the exact message is used.
   */
  #withoutDetails(remark: Waiting | Failed): Waiting | Failed {
    return this.isNear ? remark : { state: 'error', ...this.denied() };
  }

  /** The value of `replicated-from-origin`: the first source in a chain of copies, as `<namespace>/<name>`. */
  #originOf(source: Annotations): string {
    const { names } = this.#settings;
    const origin = names.from in source ? source[names.origin] : undefined;
    return origin ?? this.path;
  }

  /** The desired state without the source's data. Data that never came from a source belongs to the user, and stays. */
  #cleared(remark: Waiting | Failed, observed: Observed, now: number, isSourceEmpty = false): DesiredState {
    const { names } = this.#settings;
    // A `replicate-once-version` alone was written by a user: the controller never writes only this annotation.
    if (![names.version, names.inherited, names.origin].some((name) => name in observed.annotations)) {
      return remark.state === 'error' ? failing(remark) : { kind: 'wait', for: remark.for, ...causeOf(remark) };
    }
    const bookkeeping = { [names.at]: rfc3339(now) };
    const empty = {
      kind: 'be',
      labels: {},
      annotations: cleared(names),
      bookkeeping,
      data: 'minimal',
      remark,
    } as const;
    return isSourceEmpty ? { ...empty, isSourceEmpty } : empty;
  }
}
