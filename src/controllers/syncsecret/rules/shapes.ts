/** The desired state of the three kinds of copies. Pure. */
import { causeOf, nobodyCause, userCause } from '../../../copy/model/cause.ts';
import type { DesiredState, FieldPatch, Shape, SourceView } from '../../../copy/model/claim.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import { LAST_APPLIED, type Observed } from '../../../copy/model/observed.ts';
import { flatText } from '../../../runtime/text/flat-text.ts';
import type { OwnerReference } from '../../../kube/api.ts';
import { TOO_LARGE } from '../../common/copied-metadata.ts';
import { PLACE_ANNOTATION } from '../../../copy/plan/marks.ts';
import { ORIGIN_LABELS } from '../api.ts';
import {
  COPY_LABEL,
  COPY_OF_SYNC_SECRET,
  ORIGIN_ANNOTATION,
  ORIGINAL_TYPE_ANNOTATION,
  originLabels,
  OWNER_ANNOTATION,
  SECRET_ANNOTATION,
  SOURCE_VERSION_ANNOTATION,
  UNKNOWN_CLUSTER,
} from './marks.ts';
import type { Travel } from './travel.ts';

type Present = Extract<SourceView, { state: 'present' }>;

abstract class SyncShape implements Shape {
  readonly id: string;
  readonly #isWhollyOurs: boolean;

  /**
   * @param isWhollyOurs no label or annotation of others stays, whoever added it: as in KubeLB, copies have those that travel, and no more.
   * KubeLB itself let all travel. `false`: a user may add some
   */
  constructor(id: string, isWhollyOurs: boolean) {
    this.id = id;
    this.#isWhollyOurs = isWhollyOurs;
  }

  desiredState(source: SourceView, observed: Observed | undefined): DesiredState {
    if (observed?.trimmed === true) return TOO_LARGE;
    if (source.state === 'failed') return { kind: 'fail', ...causeOf(source) };
    if (source.state !== 'present') {
      return { kind: 'wait', for: 'watch', ...nobodyCause('Pending', 'the source has not been read yet') };
    }
    const { labels, annotations } = this.metadata(source, observed);
    const cleared = this.#isWhollyOurs ? observed : undefined;
    return {
      kind: 'be',
      labels: { ...absent(cleared?.labels), ...labels },
      annotations: { ...absent(cleared?.annotations), ...annotations },
      // It is not in what is observed, and a patch removes it only together with something else.
      bookkeeping: { [SOURCE_VERSION_ANNOTATION]: source.version, ...(cleared && { [LAST_APPLIED]: null }) },
      data: 'source',
      ...this.more(),
    };
  }

  heldVersion({ annotations }: Observed): string | undefined {
    return annotations[SOURCE_VERSION_ANNOTATION];
  }

  protected abstract metadata(
    source: Present,
    observed: Observed | undefined,
  ): { readonly labels: FieldPatch; readonly annotations: FieldPatch };
  protected abstract more(): Pick<
    Extract<DesiredState, { kind: 'be' }>,
    'type' | 'immutable' | 'ownerReferences' | 'remark'
  >;
}

/** What every write sets besides the metadata of a shape. */
const ALWAYS_SET: ReadonlySet<string> = new Set([PLACE_ANNOTATION, SOURCE_VERSION_ANNOTATION]);

/** No label or annotation of an object may stay that is not desired. */
function absent(map: Readonly<Record<string, string>> = {}): FieldPatch {
  return Object.fromEntries(Object.keys(map).flatMap((key) => (ALWAYS_SET.has(key) ? [] : [[key, null]])));
}

/** The copy of a tenant's SyncSecret in the management cluster. */
export class CopyShape extends SyncShape {
  readonly #travel: Travel;
  readonly #cluster: string;
  readonly #namespace: string;
  readonly #name: string;
  readonly #immutable: boolean;

  /** @param cluster uid of the tenant cluster, or `UNKNOWN_CLUSTER` @param rule key of the rule */
  constructor(
    travel: Travel,
    rule: RuleKey,
    cluster: string,
    { namespace, name, immutable }: { readonly namespace: string; readonly name: string; readonly immutable: boolean },
  ) {
    const isUnknown = cluster === UNKNOWN_CLUSTER;
    // The same string for most rules: it is kept for each of thousands. Any known uid is the same for all.
    super(
      immutable || isUnknown ? flatText(rule, immutable ? ' immutable' : '', isUnknown ? ' unknown' : '') : rule,
      true,
    );
    this.#travel = travel;
    this.#cluster = cluster;
    this.#namespace = namespace;
    this.#name = name;
    this.#immutable = immutable;
  }

  protected metadata(
    { labels, annotations }: Present,
    observed: Observed | undefined,
  ): ReturnType<SyncShape['metadata']> {
    return {
      labels: { ...this.#travel.labels(labels), ...originLabels(this.#namespace, this.#name) },
      annotations: { ...this.#travel.annotations(annotations), [ORIGIN_ANNOTATION]: this.#markOn(observed) },
    };
  }

  /** A mark with the uid of the cluster stays when the uid can no longer be read. */
  #markOn(observed: Observed | undefined): string {
    const place = `/${this.#namespace}/${this.#name}`;
    const mark = observed?.annotations[ORIGIN_ANNOTATION];
    return this.#cluster === UNKNOWN_CLUSTER && mark?.endsWith(place) === true ? mark : this.#cluster + place;
  }

  protected more(): ReturnType<SyncShape['more']> {
    // An owner of the tenant cluster is unknown in the management cluster, where garbage collection would delete the copy.
    return { immutable: this.#immutable, ownerReferences: [] };
  }
}

/** The Secret of a SyncSecret. */
export class SecretShape extends SyncShape {
  readonly #travel: Travel;
  readonly #owner: OwnerReference;
  readonly #immutable: boolean;
  readonly #originalType: string | undefined;

  /** @param originalType the type of the SyncSecret, if the Secret gets the type Opaque in its place */
  constructor(travel: Travel, owner: OwnerReference, immutable: boolean, originalType: string | undefined) {
    super(
      immutable || originalType !== undefined
        ? flatText(owner.uid, ' ', immutable, ' ', originalType ?? '')
        : owner.uid,
      true,
    );
    this.#travel = travel;
    this.#owner = owner;
    this.#immutable = immutable;
    this.#originalType = originalType;
  }

  protected metadata({ labels, annotations }: Present): ReturnType<SyncShape['metadata']> {
    const origin: Record<string, string> = {};
    for (const key of Object.values(ORIGIN_LABELS)) {
      const value = labels[key];
      if (value !== undefined) origin[key] = value;
    }
    return {
      labels: { ...this.#travel.labels(labels), ...origin, [COPY_LABEL]: COPY_OF_SYNC_SECRET },
      annotations: {
        ...this.#travel.annotations(annotations),
        [OWNER_ANNOTATION]: this.#owner.name,
        [ORIGINAL_TYPE_ANNOTATION]: this.#originalType ?? null,
      },
    };
  }

  protected more(): ReturnType<SyncShape['more']> {
    return {
      immutable: this.#immutable,
      ownerReferences: [this.#owner],
      ...(this.#originalType === undefined ? {} : { type: 'Opaque' }),
    };
  }
}

/**
 * The SyncSecret of a Secret that is no longer offered and still has the finalizer of KubeLB: it gets the mark and stays as it is. When the
 * finalizer has been removed, the mark shows that it is to be deleted.
 */
export class MarkShape implements Shape {
  readonly id: string;
  readonly #name: string;

  constructor(name: string) {
    this.id = `mark ${name}`;
    this.#name = name;
  }

  desiredState(_source: SourceView, observed: Observed | undefined): DesiredState {
    if (observed === undefined) {
      return { kind: 'wait', for: 'source', ...userCause('NotOffered', 'the Secret is no longer offered') };
    }
    const { labels, annotations } = observed;
    const marked = { ...annotations, [SECRET_ANNOTATION]: this.#name };
    return { kind: 'be', labels, annotations: marked, bookkeeping: {}, data: 'keep' };
  }

  /** None: it was not written by Keyferry. */
  heldVersion(): undefined {
    return undefined;
  }
}

/** The SyncSecret of a labelled Secret. Annotations of the Secret do not reach it, as in KubeLB. */
export class ManifestShape extends SyncShape {
  readonly #travel: Travel;
  readonly #namespace: string;
  readonly #name: string;
  readonly #immutable: boolean;

  constructor(travel: Travel, namespace: string, name: string, immutable: boolean) {
    super(`manifest ${namespace}/${name} ${immutable}`, false);
    this.#travel = travel;
    this.#namespace = namespace;
    this.#name = name;
    this.#immutable = immutable;
  }

  protected metadata({ labels }: Present): ReturnType<SyncShape['metadata']> {
    return {
      labels: { ...this.#travel.labelsOfSecret(labels), ...originLabels(this.#namespace, this.#name) },
      annotations: { [SECRET_ANNOTATION]: this.#name },
    };
  }

  protected more(): ReturnType<SyncShape['more']> {
    return { immutable: this.#immutable };
  }
}
