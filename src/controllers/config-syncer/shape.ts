/** What a copy looks like: as config-syncer makes it, without what is an instruction to other programs. Pure. */
import type { DesiredState, FieldPatch } from '../../copy/model/claim.ts';
import { COPY_LABEL, LAST_APPLIED, type Observed, PLACE_ANNOTATION, placeText } from '../../copy/model/observed.ts';
import { type PresentSource, PushedShape } from '../common/annotated/shapes.ts';
import type { Place } from '../common/annotated/values.ts';
import { copiedMetadata, isTravelling, TOO_LARGE } from '../common/excluded-metadata.ts';
import { farMark, MARK, NAMES, originIn, originLabels, originText, userText } from './words.ts';

type Texts = Readonly<Record<string, string>>;

export interface SyncShapeOptions {
  readonly source: Place;
  /** The uid of the source. */
  readonly uid: string;
  readonly clusterName: string;
  /** For copies in other clusters: the uid of the source's cluster. */
  readonly fromCluster?: string;
  /** The annotations of the source that decide which copies there are (`userText`). */
  readonly text: string;
}

export class SyncShape extends PushedShape {
  readonly #options: SyncShapeOptions;
  readonly #mark: string;
  readonly #originLabels: Texts;
  /** What all copies of one version of the source get. */
  #last: { readonly version: string; readonly copied: Copied } | undefined;

  constructor(options: SyncShapeOptions) {
    const { source, uid, clusterName, fromCluster, text } = options;
    const mark = fromCluster === undefined ? placeText(source) : farMark(fromCluster, source);
    super(JSON.stringify(['sync', mark, uid, clusterName]), text, userText);
    this.#options = options;
    this.#mark = mark;
    this.#originLabels = originLabels(source, clusterName);
  }

  protected copyOf({ version, labels, annotations }: PresentSource, observed: Observed | undefined): DesiredState {
    if (observed?.trimmed === true) return TOO_LARGE;
    if (this.#last?.version !== version) this.#last = { version, copied: this.#copiedFrom(labels, annotations) };
    const { copied } = this.#last;
    const { uid, source: place } = this.#options;
    const origin = { [NAMES.origin]: originText({ ...place, uid, resourceVersion: version }) };
    const isNamed = observed === undefined || originIn(observed.annotations)?.namespace === place.namespace;
    const isAdopted = observed !== undefined && !(PLACE_ANNOTATION in observed.annotations);
    return {
      kind: 'be',
      labels: isAdopted ? { ...inherited(labels, observed.labels), ...copied.labels } : copied.labels,
      annotations: {
        ...(isAdopted ? { ...inherited(annotations, observed.annotations), [LAST_APPLIED]: null } : {}),
        ...copied.annotations,
        ...(isNamed ? {} : origin),
      },
      bookkeeping: isNamed ? origin : {},
      data: 'source',
    };
  }

  #copiedFrom(labels: Texts, annotations: Texts): Copied {
    return {
      labels: {
        ...copiedMetadata(labels, isTravelling),
        ...this.#originLabels,
        [COPY_LABEL]: 'config-syncer',
      },
      annotations: { ...copiedMetadata(annotations, isTravelling), [MARK]: this.#mark },
    };
  }

  heldVersion({ annotations }: Observed): string | undefined {
    const { uid, resourceVersion } = originIn(annotations) ?? {};
    return uid === this.#options.uid ? resourceVersion : undefined;
  }
}

interface Copied {
  readonly labels: Texts;
  readonly annotations: Texts;
}

const OWN: ReadonlySet<string> = new Set(Object.values(NAMES));

/**
 * Removes what the original has copied and should not have: instructions to other programs. `sync` is the user's own:
 * the original never copies it.
 */
function inherited(ofSource: Texts, ofCopy: Texts): FieldPatch {
  const left = Object.keys(ofSource).filter((key) => {
    return !OWN.has(key) && ofCopy[key] === ofSource[key] && !isTravelling(key, ofSource[key]);
  });
  return Object.fromEntries(left.map((key) => [key, null]));
}
