/**
 * The desired state of an object with `replicate-from`. If the source exists and allows the copy, the object gets the
 * source's data. Otherwise data that came from a source is removed. Labels, type and other annotations stay.
 */
import { because, type Cause, causeOf } from '../../../copy/model/cause.ts';
import { type DesiredState, type Failed, failing, type FieldPatch, type Waiting } from '../../../copy/model/claim.ts';
import { SECRET } from '../../../copy/model/kind.ts';
import { isMarkedElsewhere, type Observed } from '../../../copy/model/observed.ts';
import { rfc3339 } from '../../../runtime/text/texts.ts';
import { MIRROR_OWNER } from '../../common/excluded-metadata.ts';
import { type PresentSource, PullShape } from '../../common/annotated/shapes.ts';
import type { Place } from '../../common/annotated/values.ts';
import { type Annotations, readBool, type RuleSettings, sourcePath } from '../rules/annotations.ts';
import { cleared, isFilled, isFrozen, versionPatch } from './bookkeeping.ts';
import { inheritance, permission } from '../rules/permission.ts';
import { unknownOn } from '../rules/rule.ts';

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
    if (!isFilled(names, observed)) {
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
