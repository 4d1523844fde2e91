/** What the shapes of annotated objects share: an object pushes copies of itself, or pulls the data of a source. Pure. */
import { because, type Cause, causeOf } from '../../../copy/model/cause.ts';
import {
  CHANGING,
  type DesiredState,
  failing,
  type Shape,
  type SourceView,
  UNREAD,
} from '../../../copy/model/claim.ts';
import { type Observed, placeText } from '../../../copy/model/observed.ts';
import { isSuspended, type Place } from './values.ts';

export type PresentSource = Extract<SourceView, { state: 'present' }>;
type MissingSource = Extract<SourceView, { state: 'missing' }>;
type Annotations = Observed['annotations'];

/**
 * A copy that a source pushes. One write may change the data of the source and take a namespace off its list. Until the
 * rule is evaluated again, no copy gets data of a source that says something else than the rule.
 */
export abstract class PushedShape implements Shape {
  readonly id: string;
  readonly #isCurrent: (annotations: Annotations) => boolean;
  /** The annotations that were looked at last, and whether they are those of this shape. */
  #last: readonly [Annotations, boolean] | undefined;

  /**
   * @param about what the shape depends on, besides source, target and `text`
   * @param text the annotations of the source that decide which copies there are, and what they are like
   * @param textOf this text of the annotations that the source has when a copy is decided
   */
  constructor(about: string, text: string, textOf: (annotations: Annotations) => string | undefined) {
    this.id = `${about} ${text}`;
    this.#isCurrent = (annotations) => !isSuspended(annotations) && textOf(annotations) === text;
  }

  desiredState(source: SourceView, observed: Observed | undefined, now: number): DesiredState {
    if (source.state === 'failed') return failing(source);
    if (source.state !== 'present') return CHANGING;
    const { annotations } = source;
    if (this.#last?.[0] !== annotations) this.#last = [annotations, this.#isCurrent(annotations)];
    return this.#last[1] ? this.copyOf(source, observed, now) : CHANGING;
  }

  abstract heldVersion(observed: Observed): string | undefined;

  protected abstract copyOf(source: PresentSource, observed: Observed | undefined, now: number): DesiredState;
}

interface PullOptions {
  /** The object that pulls. */
  readonly target: Place;
  readonly source: Place;
  /** The annotations of a source that permit to pull from it. */
  readonly permission: { readonly allowed: string; readonly allowedNamespaces: string };
  /** The annotation of the target with the version of the source that it has. */
  readonly version: string;
  /** Whether a source with these annotations permits the target. Default: `from` decides. */
  readonly permits?: (annotations: Annotations) => boolean;
}

/** An object of a user that pulls. Its labels, type and other annotations stay. */
export abstract class PullShape implements Shape {
  readonly id: string;
  protected readonly target: Place;
  /** `<namespace>/<name>` of the source. */
  protected readonly path: string;
  /** Whether the source is in the same namespace: then its users may read why it is not copied. */
  protected readonly isNear: boolean;
  readonly #options: PullOptions;

  /** @param facts all facts that the shape depends on, besides the source, as text */
  constructor(options: PullOptions, facts = '') {
    const { target, source } = options;
    this.target = target;
    this.path = placeText(source);
    this.isNear = source.namespace === target.namespace;
    this.id = `pull ${this.path} ${facts}`;
    this.#options = options;
  }

  desiredState(source: SourceView, observed: Observed | undefined, now: number): DesiredState {
    // If the target names another source now, or is suspended, the changed rule is about to be evaluated.
    if (observed === undefined || isSuspended(observed.annotations)) return UNREAD;
    if (this.sourceIn(observed.annotations) !== this.path) return UNREAD;
    const refused = this.refused(observed);
    if (refused !== undefined) return refused;
    switch (source.state) {
      case 'unknown':
        return UNREAD;
      case 'failed':
        return failing(source);
      case 'missing':
        return this.withoutSource(source, observed, now);
      case 'present':
        return this.#options.permits?.(source.annotations) === false
          ? failing(this.denied())
          : this.from(source, observed, now);
      default:
        return source satisfies never;
    }
  }

  heldVersion({ annotations }: Observed): string | undefined {
    return annotations[this.#options.version];
  }

  /** `<namespace>/<name>` of the source that the annotations of the target name; `undefined`: they name none. */
  protected abstract sourceIn(annotations: Annotations): string | undefined;

  /** The desired state if the source exists and permits the target. */
  protected abstract from(source: PresentSource, observed: Observed, now: number): DesiredState;

  /** Set if the target stays as it is, whatever its source is. */
  protected refused(_observed: Observed): DesiredState | undefined {
    return undefined;
  }

  /** The desired state if the source does not exist: the target stays as it is. */
  protected withoutSource(source: MissingSource, _observed: Observed, _now: number): DesiredState {
    return this.isNear ? { kind: 'wait', for: 'source', ...causeOf(source) } : failing(this.denied());
  }

  /** The same text whether the source is missing or forbids the target: users must not find out names elsewhere. */
  protected denied(): Cause {
    const { allowed, allowedNamespaces } = this.#options.permission;
    const lacking = this.isNear ? 'does not' : 'does not exist or does not';
    return because(
      'Denied',
      `source ${this.path} ${lacking} allow namespace ${this.target.namespace} (annotations ${allowed} and ${allowedNamespaces})`,
    );
  }
}

/** `<namespace>/<name>`; `undefined`: there is none. */
export function pathOf(place: Place | Cause | undefined): string | undefined {
  return place === undefined || 'reason' in place ? undefined : placeText(place);
}
