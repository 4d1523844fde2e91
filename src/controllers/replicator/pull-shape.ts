/**
 * How an object with `replicate-from` is filled: with its source's data, if that is there and allows it; else it is cleared, if it
 * has ever been filled. Labels, type and other annotations are its owner's.
 */
import type { DesiredState, Remark, Shape, SourceView, FieldPatch } from '../../copy/model/claim.ts';
import { SECRET } from '../../copy/model/kind.ts';
import { isMarkedElsewhere } from '../../copy/plan/marks.ts';
import type { Observed } from '../../copy/model/observed.ts';
import { MIRROR_ANNOTATIONS } from '../mirrors/api.ts';
import { type Annotations, readBool, type Refusal, sourcePath } from './annotations.ts';
import { rfc3339 } from '../../runtime/rfc3339.ts';
import { isFilled, versionMark } from './bookkeeping.ts';
import { isFrozen } from './once.ts';
import { inheritance, permission, type Place } from './permission.ts';
import { type RuleSettings, unknownOn } from './rule.ts';

const PENDING: DesiredState = { kind: 'wait', reason: 'Pending', message: 'the source has not been looked up yet' };

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
    if (observed === undefined || !this.#isCurrent(observed)) return PENDING;
    const refusal = unknownOn(this.#settings, 'the object', observed.annotations);
    if (refusal !== undefined) return { kind: 'fail', ...refusal };
    const mirror = this.#mirrorOf(observed);
    if (mirror !== undefined) return { kind: 'fail', ...keptByMirror(this.#settings.names.from, mirror) };
    switch (source.state) {
      case 'unknown':
        return PENDING;
      case 'failed':
        return { kind: 'fail', reason: source.reason, message: source.message };
      case 'missing':
        return this.#without(
          this.#discreet({ state: 'waiting', reason: source.reason, message: source.message }),
          observed,
          now,
        );
      case 'present':
        return this.#from(source.annotations, source.version, observed, now);
      default:
        return source satisfies never;
    }
  }

  /** The SecretMirror whose copy the target is. */
  #mirrorOf({ annotations }: Observed): string | undefined {
    if (this.#target.kind !== SECRET.kind || isMarkedElsewhere(annotations, this.#target)) return undefined;
    return annotations[MIRROR_ANNOTATIONS.ownedBy];
  }

  heldVersion(observed: Observed): string | undefined {
    return observed.annotations[this.#settings.names.version];
  }

  /** Whether the target still names the source that this shape is of: its rule is read anew a moment later. */
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
    const may = permission(this.#settings, this.#target, this.#source, source);
    const cancelled = refusal ?? (may.verdict === 'cancelled' ? may.refusal : undefined);
    if (cancelled !== undefined) {
      // A loop is found only where all lists allow the target.
      const open = may.verdict === 'allowed' || may.refusal.reason === 'Loop';
      const { reason, message } = open ? cancelled : this.#discreet({ state: 'error', ...cancelled });
      return { kind: 'fail', reason, message };
    }
    if (may.verdict === 'denied')
      return this.#without(this.#discreet({ state: 'error', ...may.refusal }), observed, now);
    if (names.from in source && !(names.version in source)) {
      return this.#without(
        { state: 'waiting', reason: 'SourceEmpty', message: `${where} holds nothing` },
        observed,
        now,
      );
    }
    const once = readBool(observed.annotations, names.once);
    const frozen = typeof once === 'object' ? once : isFrozen(names, source, observed.annotations);
    const problem = [once, frozen, readBool(source, names.once)].find(
      (value): value is Refusal => typeof value === 'object',
    );
    if (problem !== undefined) return { kind: 'fail', ...problem };
    const handedOn: FieldPatch = {
      [names.inherited]: inheritance(this.#settings, source),
      [names.origin]: once === true ? null : this.#originOf(source),
    };
    if (frozen === true) {
      return {
        kind: 'be',
        labels: {},
        annotations: handedOn,
        bookkeeping: { [names.at]: rfc3339(now) },
        data: 'keep',
        type: '',
      };
    }
    const mark = versionMark(names, observed, version);
    return {
      kind: 'be',
      labels: {},
      annotations: { ...handedOn, ...mark.annotations, [names.onceVersion]: source[names.onceVersion] ?? null },
      bookkeeping: { ...mark.bookkeeping, [names.at]: rfc3339(now) },
      data: 'source',
      type: '',
    };
  }

  /**
   * One answer for a source that is not there and for one that does not allow it: else anybody could find out the names of other
   * namespaces' objects. Within the target's own namespace there is nothing to hide.
   */
  #discreet(remark: Remark): Remark {
    const { namespace, name } = this.#source;
    if (namespace === this.#target.namespace) return remark;
    const { allowed, allowedNamespaces } = this.#settings.names;
    const message =
      `source ${namespace}/${name} is not there, or does not allow namespace ${this.#target.namespace} ` +
      `(its annotations ${allowed} and ${allowedNamespaces} say so)`;
    return { state: 'error', reason: 'Denied', message };
  }

  /** Where the chain that ends here begins. */
  #originOf(source: Annotations): string {
    const { names } = this.#settings;
    const origin = names.from in source ? source[names.origin] : undefined;
    return origin ?? `${this.#source.namespace}/${this.#source.name}`;
  }

  /** The target may not hold the data, or there are none. What was never filled is its owner's and stays. */
  #without(remark: Remark, observed: Observed, now: number): DesiredState {
    const { names } = this.#settings;
    if (!isFilled(names, observed)) {
      const { state, reason, message } = remark;
      return { kind: state === 'error' ? 'fail' : 'wait', reason, message };
    }
    return {
      kind: 'be',
      labels: {},
      annotations: { [names.version]: null, [names.onceVersion]: null, [names.inherited]: null, [names.origin]: null },
      bookkeeping: { [names.at]: rfc3339(now) },
      data: 'minimal',
      remark,
    };
  }
}

/** Its mirror, which may work in another process, would undo whatever is filled in, and the two would never come to rest. */
function keptByMirror(from: string, mirror: string): { readonly reason: string; readonly message: string } {
  const message = `annotation ${from} is not followed: the object is the copy of SecretMirror ${mirror} (annotation ${MIRROR_ANNOTATIONS.ownedBy})`;
  return { reason: 'Conflict', message };
}
