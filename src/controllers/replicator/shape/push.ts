/**
 * The desired state of a target of `replicate-to`: a copy of the source. If the source itself has a `replicate-from`,
 * the target is an empty object with the same `replicate-from`. Each decision reads the source's annotations anew. So a
 * change of an annotation changes the desired state, while the claim stays the same.
 */
import { isDeepStrictEqual } from 'node:util';
import {
  CHANGING,
  type DesiredObject,
  type DesiredState,
  failing,
  type FieldPatch,
  type Shape,
  type SourceView,
} from '../../../copy/model/claim.ts';
import { COPY_LABEL, type Observed } from '../../../copy/model/observed.ts';
import { rfc3339 } from '../../../runtime/text/texts.ts';
import { isSuspended, type Place } from '../../common/annotated/values.ts';
import type { Annotations, RuleSettings } from '../rules/annotations.ts';
import { cleared, isFrozen, kept, versionPatch } from './bookkeeping.ts';
import { readRule, type ReplicationRule, unknownOn } from '../rules/rule.ts';

const COPY_LABELS: FieldPatch = { [COPY_LABEL]: 'replicator' };

export class PushShape implements Shape {
  readonly id: string;
  readonly #settings: RuleSettings;
  readonly #source: Place;
  readonly #owner: string;
  /** The source's annotations at the last decision, and their rule: they are parsed once for all copies. */
  #last: { readonly annotations: Annotations; readonly rule: ReplicationRule | undefined } | undefined;

  constructor(settings: RuleSettings, source: Place) {
    this.#settings = settings;
    this.#source = source;
    this.#owner = `${source.namespace}/${source.name}`;
    this.id = `push ${this.#owner}`;
  }

  desiredState(source: SourceView, observed: Observed | undefined, now: number): DesiredState {
    if (source.state === 'failed') return failing(source);
    if (source.state !== 'present' || isSuspended(source.annotations)) return CHANGING;
    const rule = this.#rule(source.annotations);
    if (rule?.kind === 'broken') return failing(rule.refusal);
    if (rule?.kind !== 'push') return CHANGING;
    const refusal = observed && unknownOn(this.#settings, 'the target', observed.annotations);
    if (refusal !== undefined) return failing(refusal);
    return rule.from === undefined
      ? this.#copy(source.annotations, source.version, observed, now)
      : this.#emptyCopy(source.annotations, rule.from, observed, now);
  }

  heldVersion(observed: Observed): string | undefined {
    return observed.annotations[this.#settings.names.version];
  }

  #rule(annotations: Annotations): ReplicationRule | undefined {
    // Compared by value: if the source is itself a copy, each read makes a new object of its annotations (`Slot`).
    if (!isDeepStrictEqual(this.#last?.annotations, annotations)) {
      this.#last = { annotations, rule: readRule(this.#settings, this.#source, annotations) };
    }
    return this.#last?.rule;
  }

  #isOwnCopy(observed: Observed | undefined): observed is Observed {
    return observed?.annotations[this.#settings.names.by] === this.#owner;
  }

  /** The desired state of a copy with the source's data. */
  #copy(source: Annotations, version: string, observed: Observed | undefined, now: number): DesiredState {
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

  /** The desired state of a target that gets a `replicate-from` in place of data. Its own rule then fills it. */
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
    // The old data stays until the data of the new source is copied.
    return {
      ...common,
      annotations: { ...annotations, ...cleared(names) },
      bookkeeping: { [names.at]: rfc3339(now) },
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
    return { kind: 'be', labels, annotations, bookkeepingLabels: COPY_LABELS };
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
