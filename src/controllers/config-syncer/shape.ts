/** What a copy looks like: as config-syncer makes it, without what is an instruction to other programs. Pure. */
import {
  CHANGING,
  type DesiredState,
  failing,
  type FieldPatch,
  type Shape,
  type SourceView,
} from '../../copy/model/claim.ts';
import { COPY_LABEL, LAST_APPLIED, type Observed, PLACE_ANNOTATION } from '../../copy/model/observed.ts';
import type { Place } from '../common/annotated/objects.ts';
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

/** All copies of a source share one shape. */
export class SyncShape implements Shape {
  readonly id: string;
  readonly #options: SyncShapeOptions;
  readonly #mark: string;
  readonly #originLabels: Texts;
  /** For one version of the source; `undefined` metadata: its annotations are not those of this shape. */
  #last: { readonly version: string; readonly copied: Copied | undefined } | undefined;

  constructor(options: SyncShapeOptions) {
    const { source, uid, clusterName, fromCluster, text } = options;
    this.#options = options;
    this.#mark = fromCluster === undefined ? `${source.namespace}/${source.name}` : farMark(fromCluster, source);
    this.#originLabels = originLabels(source, clusterName);
    this.id = JSON.stringify(['sync', this.#mark, uid, clusterName, text]);
  }

  desiredState(source: SourceView, observed: Observed | undefined): DesiredState {
    if (source.state === 'failed') return failing(source);
    if (observed?.trimmed === true) return TOO_LARGE;
    if (source.state !== 'present') return CHANGING;
    const { version, labels, annotations } = source;
    if (this.#last?.version !== version) this.#last = { version, copied: this.#copiedFrom(labels, annotations) };
    const { copied } = this.#last;
    // With other annotations, the copy may be unwanted now. The rule is about to be evaluated.
    if (copied === undefined) return CHANGING;
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

  #copiedFrom(labels: Texts, annotations: Texts): Copied | undefined {
    if (userText(annotations) !== this.#options.text) return undefined;
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
