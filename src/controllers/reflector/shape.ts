/** The desired states of mirrors, as reflector makes them: automatic mirrors are copies, direct mirrors are filled. */
import { because, type Cause, causeOf, nobodyCause } from '../../copy/model/cause.ts';
import {
  type DesiredState,
  failing,
  type FieldPatch,
  type Shape,
  type SourceView,
  UNREAD,
} from '../../copy/model/claim.ts';
import { COPY_LABEL, type Observed } from '../../copy/model/observed.ts';
import type { Place } from '../common/annotated/objects.ts';
import { hasPlace, isTrue, NAMES, referenceIn, userText } from './words.ts';

type Annotations = Readonly<Record<string, string>>;

const CHANGING: DesiredState = {
  kind: 'wait',
  for: 'watch',
  ...nobodyCause('Pending', 'the source is being evaluated again'),
};

/** Types of Secrets that reflector does not see: the records of Helm. */
const UNSEEN = 'helm.sh';

/** The version and the time, which are written when something else is: a new version alone changes no data. */
function written(version: string, now: number): FieldPatch {
  return { [NAMES.version]: version, [NAMES.at]: new Date(now).toISOString() };
}

/** An automatic mirror. All mirrors of a source share one shape. */
export class AutoShape implements Shape {
  readonly id: string;
  readonly #source: string;
  readonly #text: string;
  /** The annotations that were compared last, and whether they are those of this shape. */
  #last: readonly [Annotations, boolean] | undefined;

  /** @param text the annotations of the source that decide which mirrors there are (`userText`) */
  constructor({ namespace, name }: Place, text: string) {
    this.#source = `${namespace}/${name}`;
    this.#text = text;
    this.id = `auto ${this.#source} ${text}`;
  }

  desiredState(source: SourceView, _observed: Observed | undefined, now: number): DesiredState {
    if (source.state === 'failed') return failing(source);
    // With other annotations, the mirror may be forbidden now. The rule is about to be evaluated.
    if (source.state !== 'present' || !this.#isCurrent(source.annotations)) return CHANGING;
    return {
      kind: 'be',
      labels: {},
      annotations: { [NAMES.reflects]: this.#source, [NAMES.autoReflects]: 'True' },
      bookkeeping: written(source.version, now),
      bookkeepingLabels: { [COPY_LABEL]: 'reflector' },
      data: 'source',
      refusedTypes: UNSEEN,
    };
  }

  heldVersion(observed: Observed): string | undefined {
    return observed.annotations[NAMES.version];
  }

  #isCurrent(annotations: Annotations): boolean {
    if (this.#last?.[0] !== annotations) this.#last = [annotations, userText(annotations) === this.#text];
    return this.#last[1];
  }
}

export interface DirectOptions {
  readonly target: Place;
  readonly source: Place;
  /** Whether a source with these annotations permits the target; `undefined`: not known yet. */
  readonly permits: (annotations: Annotations) => boolean | undefined;
  /** The facts besides the annotations on which `permits` depends, as text. */
  readonly facts: string;
}

/** A direct mirror: an object of a user that gets the data of its source. Labels, type and other annotations stay. */
export class DirectShape implements Shape {
  readonly id: string;
  readonly #options: DirectOptions;

  constructor(options: DirectOptions) {
    const { source, facts } = options;
    this.#options = options;
    this.id = `direct ${source.namespace}/${source.name} ${facts}`;
  }

  desiredState(source: SourceView, observed: Observed | undefined, now: number): DesiredState {
    const { target, permits } = this.#options;
    if (observed === undefined || !this.#isCurrent(observed)) return UNREAD;
    const { annotations } = observed;
    if (hasPlace(target, annotations))
      return failing(
        because('Conflict', `annotation ${NAMES.reflects} is ignored: the object is a copy that Keyferry made`),
      );
    switch (source.state) {
      case 'unknown':
        return UNREAD;
      case 'failed':
        return failing(source);
      case 'missing':
        return this.#isNear ? { kind: 'wait', for: 'source', ...causeOf(source) } : failing(this.#denied());
      case 'present':
        break;
      default:
        return source satisfies never;
    }
    const isPermitted = permits(source.annotations);
    if (isPermitted === undefined) return UNREAD;
    if (!isPermitted) return failing(this.#denied());
    const book = written(source.version, now);
    const isMarked = annotations[NAMES.autoReflects]?.trim().toLowerCase() === 'false';
    // The bookkeeping of an object that has the data already is completed; another version alone is not written.
    const missing: FieldPatch = annotations[NAMES.version] ? {} : { [NAMES.version]: source.version };
    return {
      kind: 'be',
      labels: {},
      annotations: { ...(isMarked ? {} : { [NAMES.autoReflects]: 'False' }), ...missing },
      bookkeeping: book,
      data: 'source',
      type: '',
      refusedTypes: UNSEEN,
    };
  }

  heldVersion(observed: Observed): string | undefined {
    return observed.annotations[NAMES.version];
  }

  /** Whether the target still names this source. If not, the changed rule is about to be evaluated. */
  #isCurrent({ annotations }: Observed): boolean {
    const { source } = this.#options;
    const named = referenceIn(annotations);
    if (named === undefined || 'reason' in named || isTrue(annotations[NAMES.autoReflects])) return false;
    return named.namespace === source.namespace && named.name === source.name;
  }

  get #isNear(): boolean {
    return this.#options.source.namespace === this.#options.target.namespace;
  }

  /** The same text whether the source is missing or forbids the target: users must not find out names elsewhere. */
  #denied(): Cause {
    const { source, target } = this.#options;
    const lacking = this.#isNear ? 'does not' : 'does not exist or does not';
    const names = `annotations ${NAMES.allowed} and ${NAMES.allowedNamespaces}`;
    return because(
      'Denied',
      `source ${source.namespace}/${source.name} ${lacking} allow namespace ${target.namespace} (${names})`,
    );
  }
}
