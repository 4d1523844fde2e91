/** The shapes of a SyncSecret's copy, of a SyncSecret's Secret, and of the SyncSecret of a labelled Secret. Pure. */
import { TOO_LARGE } from '../common/excluded-metadata.ts';
import {
  CHANGING,
  type DesiredState,
  failing,
  type FieldPatch,
  type Shape,
  type SourceView,
  UNREAD,
} from '../../copy/model/claim.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { COPY_LABEL, LAST_APPLIED, type Observed, PLACE_ANNOTATION } from '../../copy/model/observed.ts';
import { MANAGED_BY_KUBELB, MANAGED_BY_LABEL, ORIGIN_LABELS, SYNC_SECRET } from './api.ts';
import {
  COPY_OF_SYNC_SECRET,
  ORIGIN_ANNOTATION,
  ORIGINAL_TYPE_ANNOTATION,
  originLabels,
  OWNER_ANNOTATION,
  SECRET_ANNOTATION,
  SOURCE_VERSION_ANNOTATION,
  UNKNOWN_CLUSTER,
} from './rules/marks.ts';
import type { Travel } from './rules/travel.ts';

type Present = Extract<SourceView, { state: 'present' }>;
type Fields = Pick<
  Extract<DesiredState, { kind: 'be' }>,
  'labels' | 'annotations' | 'type' | 'immutable' | 'ownerReferences'
>;

/** @template Of the facts about the rule that the shape needs. They are kept for each of thousands of rules */
abstract class SyncShape<Of> implements Shape {
  readonly id: string;
  protected readonly travel: Travel;
  protected readonly of: Of;
  /**
   * Whether labels and annotations of other clients are removed. As in KubeLB, a copy has only those that travel (in
   * KubeLB: all). `false`: users may add some.
   */
  protected get isWhollyOurs(): boolean {
    return true;
  }

  constructor(id: string, travel: Travel, of: Of) {
    this.id = id;
    this.travel = travel;
    this.of = of;
  }

  desiredState(source: SourceView, observed: Observed | undefined): DesiredState {
    if (observed?.trimmed === true) return TOO_LARGE;
    if (source.state === 'failed') return failing(source);
    if (source.state !== 'present') return UNREAD;
    const { labels, annotations, ...fields } = this.fieldsOf(source, observed);
    const cleared = this.isWhollyOurs ? observed : undefined;
    return {
      kind: 'be',
      labels: { ...absent(cleared?.labels), ...labels },
      annotations: { ...absent(cleared?.annotations), ...annotations },
      // Keyferry does not see the annotation `last-applied`. So a write that is needed anyway removes it.
      bookkeeping: { [SOURCE_VERSION_ANNOTATION]: source.version, ...(cleared && { [LAST_APPLIED]: null }) },
      data: 'source',
      ...fields,
    };
  }

  heldVersion({ annotations }: Observed): string | undefined {
    return annotations[SOURCE_VERSION_ANNOTATION];
  }

  /** The fields of the desired state other than the data. */
  protected abstract fieldsOf(source: Present, observed: Observed | undefined): Fields;
}

/** Annotations that every write sets, whatever the shape is. */
const ALWAYS_SET: ReadonlySet<string> = new Set([PLACE_ANNOTATION, SOURCE_VERSION_ANNOTATION]);

/** A patch that removes all labels or annotations of an object. The desired ones are added afterwards. */
function absent(map: Readonly<Record<string, string>> = {}): FieldPatch {
  return Object.fromEntries(Object.keys(map).flatMap((key) => (ALWAYS_SET.has(key) ? [] : [[key, null]])));
}

export interface CopyOf {
  /** The uid of the tenant cluster, or `UNKNOWN_CLUSTER`. */
  readonly cluster: string;
  readonly namespace: string;
  readonly name: string;
  readonly immutable: boolean;
}

/** The desired state of the copy of a tenant's SyncSecret in the management cluster. */
export class CopyShape extends SyncShape<CopyOf> {
  constructor(rule: RuleKey, travel: Travel, of: CopyOf) {
    const isUnknown = of.cluster === UNKNOWN_CLUSTER;
    // Most shapes have the rule key as id, which saves memory. The uid of the cluster is the same for all rules.
    const isUsual = !of.immutable && !isUnknown;
    super(isUsual ? rule : `${rule}${of.immutable ? ' immutable' : ''}${isUnknown ? ' unknown' : ''}`, travel, of);
  }

  protected fieldsOf({ labels, annotations }: Present, observed: Observed | undefined): Fields {
    const { namespace, name, immutable } = this.of;
    return {
      labels: { ...this.travel.labels(labels), ...originLabels(namespace, name) },
      annotations: { ...this.travel.annotations(annotations), [ORIGIN_ANNOTATION]: this.#markOn(observed) },
      immutable,
      // The owners are in the tenant cluster. Garbage collection would not find them here, and delete the copy.
      ownerReferences: [],
    };
  }

  /** If the uid cannot be read any more, a mark with the uid stays. */
  #markOn(observed: Observed | undefined): string {
    const { cluster, namespace, name } = this.of;
    const place = `/${namespace}/${name}`;
    const mark = observed?.annotations[ORIGIN_ANNOTATION];
    return cluster === UNKNOWN_CLUSTER && mark?.endsWith(place) === true ? mark : cluster + place;
  }
}

export interface SecretOf {
  /** Name of the SyncSecret. */
  readonly name: string;
  readonly uid: string;
  readonly immutable: boolean;
  /** The type of the SyncSecret, if the Secret gets the type Opaque instead. */
  readonly originalType: string | undefined;
}

/** The desired state of the Secret of a SyncSecret. */
export class SecretShape extends SyncShape<SecretOf> {
  constructor(travel: Travel, of: SecretOf) {
    const { uid, immutable, originalType } = of;
    const isUsual = !immutable && originalType === undefined;
    super(isUsual ? uid : `${uid} ${immutable} ${originalType ?? ''}`, travel, of);
  }

  protected fieldsOf({ labels, annotations }: Present): Fields {
    const { name, uid, immutable, originalType } = this.of;
    const origin: Record<string, string> = {};
    for (const key of Object.values(ORIGIN_LABELS)) {
      const value = labels[key];
      if (value !== undefined) origin[key] = value;
    }
    return {
      labels: { ...this.travel.labels(labels), ...origin, [COPY_LABEL]: COPY_OF_SYNC_SECRET },
      annotations: {
        ...this.travel.annotations(annotations),
        [OWNER_ANNOTATION]: name,
        [ORIGINAL_TYPE_ANNOTATION]: originalType ?? null,
      },
      immutable,
      ownerReferences: [{ apiVersion: SYNC_SECRET.apiVersion, kind: SYNC_SECRET.kind, name, uid }],
      ...(originalType !== undefined && { type: 'Opaque' }),
    };
  }
}

/** The desired state of the SyncSecret of a labelled Secret. As in KubeLB, it gets no annotations of the Secret. */
export class ManifestShape extends SyncShape<Omit<CopyOf, 'cluster'>> {
  protected override get isWhollyOurs(): boolean {
    return false;
  }

  /** Data of a Secret that lost the label go nowhere: another watch than that of its rule may bring them first. */
  override desiredState(source: SourceView, observed: Observed | undefined): DesiredState {
    const isOffered = source.state !== 'present' || source.labels[MANAGED_BY_LABEL] === MANAGED_BY_KUBELB;
    return isOffered ? super.desiredState(source, observed) : CHANGING;
  }

  constructor(travel: Travel, of: Omit<CopyOf, 'cluster'>) {
    super(`manifest ${of.namespace}/${of.name} ${of.immutable}`, travel, of);
  }

  protected fieldsOf({ labels }: Present): Fields {
    const { namespace, name, immutable } = this.of;
    return {
      labels: { ...this.travel.labelsOfSecret(labels), ...originLabels(namespace, name) },
      annotations: { [SECRET_ANNOTATION]: name },
      immutable,
    };
  }
}
