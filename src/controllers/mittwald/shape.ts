/** What targets look like, as kubernetes-replicator makes them: they get the keys of their source, and keep their own. Pure. */
import type { OwnerReference } from '../../kube/api.ts';
import { because, causeOf } from '../../copy/model/cause.ts';
import {
  type Claim,
  type DesiredObject,
  type DesiredState,
  type FieldPatch,
  listedIn,
  type Merged,
  type Shape,
  type SourceView,
} from '../../copy/model/claim.ts';
import {
  COPY_LABEL,
  lengthProblem,
  MERGED_FROM,
  type Observed,
  PLACE_ANNOTATION,
  placeText,
} from '../../copy/model/observed.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { rfc3339 } from '../../runtime/text/texts.ts';
import { pathOf, type PresentSource, PullShape, PushedShape } from '../common/annotated/shapes.ts';
import type { Place } from '../common/annotated/values.ts';
import { copiedMetadata, isCopied, TOO_LARGE } from '../common/excluded-metadata.ts';
import { ACCEPT_PUSH, acceptsFrom, COPY_OF, FILLED_FROM, isRule, NAMES, referenceIn, userText } from './words.ts';

type Annotations = Readonly<Record<string, string>>;

const MERGED: Merged = {
  listIn: NAMES.keys,
  tooMany: because('TooLarge', 'the source has too many keys to list in an annotation of the target'),
};
/** What an object that only has keys of ours does not have any more when it has taken its consent back. */
const TAKEN_BACK = {
  state: 'error',
  ...because('Conflict', `the object no longer accepts keys (annotation ${ACCEPT_PUSH})`),
} as const;
const MERGED_INTO_USERS: Merged = { ...MERGED, isUsers: true };

/** The version and the time, which are written when something else is: a new version alone changes no data. */
function written(version: string, now: number): FieldPatch {
  return { [NAMES.version]: version, [NAMES.at]: rfc3339(now) };
}

/** Whether the list of our keys on an object was too long to keep. */
function isTrimmed({ annotations }: Pick<Observed, 'annotations'>): boolean {
  return lengthProblem(annotations[NAMES.keys] ?? '') !== undefined;
}

export interface PushOptions {
  readonly source: Place;
  /** The annotations of the source that decide (`userText`). */
  readonly text: string;
  readonly stripsLabels: boolean;
  /** Those of the source, if copies get them. */
  readonly owners: readonly OwnerReference[] | undefined;
  /** `--mittwald-merge-foreign`. */
  readonly mergesForeign: boolean;
}

/** A copy that the source pushes. */
export class PushShape extends PushedShape {
  readonly #options: PushOptions;
  readonly #mark: string;

  constructor(options: PushOptions) {
    const { source, text, owners } = options;
    const mark = placeText(source);
    super(`push ${mark} ${JSON.stringify(owners ?? null)}`, text, userText);
    this.#options = options;
    this.#mark = mark;
  }

  override desiredState(source: SourceView, observed: Observed | undefined, now: number): DesiredState {
    const takes = observed && this.#takes(source, observed);
    const desired = super.desiredState(source, observed, now);
    return takes === undefined ? desired : { ...desired, takes };
  }

  protected copyOf(source: PresentSource, observed: Observed | undefined, now: number): DesiredState {
    if (observed?.trimmed === true || (observed !== undefined && isTrimmed(observed))) return TOO_LARGE;
    const book = { bookkeeping: written(source.version, now), data: 'source' } as const;
    const { annotations = {} } = observed ?? {};
    const isUsers = MERGED_FROM in annotations || (observed && this.#takes(source, observed)) === 'maybe';
    // The object is one of a user, and only gets keys.
    if (observed !== undefined && !(COPY_OF in annotations) && isUsers) {
      const consent = this.#consentOf(observed);
      if (consent === undefined) return { ...remainsIn(observed), remark: TAKEN_BACK };
      const marks = { [MERGED_FROM]: this.#mark, ...consent };
      return { kind: 'be', ...book, labels: {}, annotations: marks, type: '', merged: MERGED_INTO_USERS };
    }
    const { stripsLabels, owners } = this.#options;
    return {
      kind: 'be',
      ...book,
      labels: stripsLabels ? {} : copiedMetadata(source.labels, isCopied),
      annotations: { [COPY_OF]: this.#mark },
      bookkeepingLabels: { [COPY_LABEL]: 'mittwald' },
      merged: MERGED,
      ...(owners === undefined ? {} : { ownerReferences: owners }),
    };
  }

  #takes(source: SourceView, { annotations, ownAnnotations }: Observed): DesiredState['takes'] {
    if (NAMES.from in annotations || PLACE_ANNOTATION in annotations) return undefined;
    // The original lists keys on its sources, too, by mistake. A list that Keyferry wrote is left from a pull.
    // Where the user says who may push, the list says nothing.
    const isOriginals = !isRule(annotations) && !ownAnnotations.includes(NAMES.keys) && !(ACCEPT_PUSH in annotations);
    if (annotations[NAMES.keys] && isOriginals) return isVersionOf(source, annotations) ? 'sure' : 'maybe';
    const { source: from, mergesForeign } = this.#options;
    return mergesForeign || acceptsFrom(from.namespace, annotations) ? 'maybe' : undefined;
  }

  heldVersion(observed: Observed): string | undefined {
    return observed.annotations[NAMES.version];
  }

  /** What Keyferry writes of the consent of an object that gets keys; `undefined`: the consent was taken back. */
  #consentOf({ annotations, ownAnnotations }: Observed): FieldPatch | undefined {
    const { source, mergesForeign } = this.#options;
    // The list of the original was the consent. Now it is ours, so an annotation that the user can remove says so.
    const isFromList = ownAnnotations.includes(ACCEPT_PUSH) || !(MERGED_FROM in annotations);
    if (mergesForeign || (acceptsFrom(source.namespace, annotations) && !ownAnnotations.includes(ACCEPT_PUSH)))
      return {};
    return isFromList ? { [ACCEPT_PUSH]: source.namespace } : undefined;
  }
}

/** Whether a target has the data of this version, by its bookkeeping. */
function isVersionOf(source: SourceView, annotations: Annotations): boolean {
  return source.state === 'present' && source.version === annotations[NAMES.version];
}

/** What remains of a copy that has keys of others, or of an object of a user that got keys. */
export function remainsOf(rule: RuleKey, observed: Observed): Claim {
  const shape: Shape = { id: 'remains', desiredState: () => remainsIn(observed), heldVersion: () => undefined };
  return { owner: { key: rule, title: rule, rank: '' }, mode: 'release', source: undefined, shape };
}

/** Neither our keys nor our marks. */
function remainsIn({ annotations, ownAnnotations }: Observed): DesiredObject {
  const marks = [COPY_OF, MERGED_FROM, PLACE_ANNOTATION, NAMES.keys, NAMES.version, NAMES.at];
  const names = ownAnnotations.includes(ACCEPT_PUSH) ? [...marks, ACCEPT_PUSH] : marks;
  return {
    kind: 'be',
    labels: { [COPY_LABEL]: null },
    annotations: Object.fromEntries(names.map((name) => [name, null])),
    bookkeeping: {},
    data: 'minimal',
    merged: COPY_OF in annotations ? MERGED : MERGED_INTO_USERS,
  };
}

/** An object of a user that pulls keys from its source. */
export class KeysShape extends PullShape {
  constructor(target: Place, source: Place, permits: (annotations: Annotations) => boolean) {
    super({ target, source, permission: NAMES, version: NAMES.version, permits });
  }

  protected sourceIn(annotations: Annotations): string | undefined {
    return pathOf(referenceIn(this.target, annotations));
  }

  protected override refused(observed: Observed): DesiredState | undefined {
    return isTrimmed(observed) ? TOO_LARGE : undefined;
  }

  /**
   * What the original filled, and whose source was gone before, stays, as the original leaves it. So does what another
   * source filled: else the data would tell which names exist in other namespaces.
   */
  protected override withoutSource(...missing: Parameters<PullShape['withoutSource']>): DesiredState {
    const [source, observed, now] = missing;
    const { annotations, ownAnnotations } = observed;
    // A user may write the annotation, too.
    const isFilled = annotations[FILLED_FROM] === this.path && ownAnnotations.includes(FILLED_FROM);
    if (!isFilled || listedIn(MERGED, observed).length === 0) return super.withoutSource(...missing);
    return {
      kind: 'be',
      labels: {},
      annotations: { [NAMES.keys]: '' },
      bookkeeping: { [NAMES.at]: rfc3339(now) },
      data: 'minimal',
      merged: MERGED_INTO_USERS,
      remark: { state: 'waiting', for: 'source', ...(this.isNear ? causeOf(source) : this.denied()) },
    };
  }

  protected from(source: PresentSource, { annotations }: Observed, now: number): DesiredState {
    const missing: FieldPatch = annotations[NAMES.version] ? {} : { [NAMES.version]: source.version };
    return {
      kind: 'be',
      labels: {},
      annotations: { ...missing, [FILLED_FROM]: this.path },
      bookkeeping: written(source.version, now),
      data: 'source',
      type: '',
      merged: MERGED_INTO_USERS,
    };
  }
}
