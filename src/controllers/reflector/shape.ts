/** The desired states of mirrors, as reflector makes them: automatic mirrors are copies, direct mirrors are filled. */
import { because } from '../../copy/model/cause.ts';
import { type DesiredState, failing, type FieldPatch } from '../../copy/model/claim.ts';
import { COPY_LABEL, type Observed, placeText } from '../../copy/model/observed.ts';
import { pathOf, type PresentSource, PullShape, PushedShape } from '../common/annotated/shapes.ts';
import type { Place } from '../common/annotated/values.ts';
import { hasPlace, isTrue, NAMES, referenceIn, userText } from './words.ts';

type Annotations = Readonly<Record<string, string>>;

/** Types of Secrets that reflector does not see: the records of Helm. */
const UNSEEN = 'helm.sh';

/** The version and the time, which are written when something else is: a new version alone changes no data. */
function written(version: string, now: number): FieldPatch {
  return { [NAMES.version]: version, [NAMES.at]: new Date(now).toISOString() };
}

/** An automatic mirror. */
export class AutoShape extends PushedShape {
  readonly #source: string;

  /** @param text the annotations of the source that decide which mirrors there are (`userText`) */
  constructor(source: Place, text: string) {
    super(`auto ${placeText(source)}`, text, userText);
    this.#source = placeText(source);
  }

  protected copyOf({ version }: PresentSource, _observed: Observed | undefined, now: number): DesiredState {
    return {
      kind: 'be',
      labels: {},
      annotations: { [NAMES.reflects]: this.#source, [NAMES.autoReflects]: 'True' },
      bookkeeping: written(version, now),
      bookkeepingLabels: { [COPY_LABEL]: 'reflector' },
      data: 'source',
      refusedTypes: UNSEEN,
    };
  }

  heldVersion(observed: Observed): string | undefined {
    return observed.annotations[NAMES.version];
  }
}

/** A direct mirror: an object of a user that gets the data of its source. */
export class DirectShape extends PullShape {
  /** @param facts the facts besides the annotations on which `permits` depends, as text */
  constructor(target: Place, source: Place, permits: (annotations: Annotations) => boolean, facts: string) {
    super({ target, source, permission: NAMES, version: NAMES.version, permits }, facts);
  }

  protected sourceIn(annotations: Annotations): string | undefined {
    return isTrue(annotations[NAMES.autoReflects]) ? undefined : pathOf(referenceIn(annotations));
  }

  protected override refused({ annotations }: Observed): DesiredState | undefined {
    if (!hasPlace(this.target, annotations)) return undefined;
    const message = `annotation ${NAMES.reflects} is ignored: the object is a copy that Keyferry made`;
    return failing(because('Conflict', message));
  }

  protected from(source: PresentSource, { annotations }: Observed, now: number): DesiredState {
    const isMarked = annotations[NAMES.autoReflects]?.trim().toLowerCase() === 'false';
    // The bookkeeping of an object that has the data already is completed; another version alone is not written.
    const missing: FieldPatch = annotations[NAMES.version] ? {} : { [NAMES.version]: source.version };
    return {
      kind: 'be',
      labels: {},
      annotations: { ...(isMarked ? {} : { [NAMES.autoReflects]: 'False' }), ...missing },
      bookkeeping: written(source.version, now),
      data: 'source',
      type: '',
      refusedTypes: UNSEEN,
    };
  }
}
