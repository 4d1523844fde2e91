/** The desired state of a SecretMirror's copies: as ktsstudio/mirrors makes them, but without forbidden metadata. */
import { createHash } from 'node:crypto';
import type { Choices } from './rules/choices.ts';
import { because, causeOf } from '../../copy/model/cause.ts';
import {
  type DesiredState,
  failing,
  type FieldPatch,
  type Shape,
  type SourceLease,
  type SourceView,
  UNREAD,
} from '../../copy/model/claim.ts';
import { COPY_LABEL, type Observed } from '../../copy/model/observed.ts';
import { copiedMetadata, isCopied, TOO_LARGE } from '../common/excluded-metadata.ts';
import { MIRROR_ANNOTATIONS, type SourceType } from './api.ts';

/** Annotation on copies of mirrors with `deletePolicy: retain`: they are not deleted with their mirror. */
export const RETAIN_ANNOTATION = 'keyferry.dev/retain';
/** Annotation on copies of a source in Vault: the version of their content. `parent-version` is empty on them. */
export const SOURCE_VERSION_ANNOTATION = 'keyferry.dev/source-version';
/** Annotation on copies of dynamic credentials: the origin of their lease (`vaultLeaseOrigin`). */
export const LEASE_ORIGIN_ANNOTATION = 'keyferry.dev/vault-lease-origin';

/** Annotation on copies with chosen keys or type: a digest of this choice, which the source's version does not show. */
export const CHOICE_ANNOTATION = 'keyferry.dev/choice';

const READ_ANNOTATIONS: ReadonlySet<string> = new Set([
  ...Object.values(MIRROR_ANNOTATIONS),
  RETAIN_ANNOTATION,
  SOURCE_VERSION_ANNOTATION,
  LEASE_ORIGIN_ANNOTATION,
  CHOICE_ANNOTATION,
]);

/** Whether mirrors read an annotation of a copy, so that it is always kept; `undefined`: it is never kept. */
export function isReadOfCopies(annotation: string): boolean | undefined {
  return annotation === MIRROR_ANNOTATIONS.lastSyncAt ? undefined : READ_ANNOTATIONS.has(annotation);
}

export interface MirrorShapeOptions {
  /** `<namespace>/<name>` of the mirror. */
  readonly owner: string;
  readonly retain: boolean;
  /** The path in the spec of a source in Vault; `undefined`: the source is an object of the cluster. */
  readonly vaultPath?: string | undefined;
  /** Default: `vault` if there is a path, else `secret`. */
  readonly sourceType?: SourceType;
  /** The choices in the spec. Default: all keys, and the labels and annotations that `isCopied` accepts. */
  readonly choices?: Choices | undefined;
}

/** Most characters of the keys of a source, times the instructions in the patterns for them: at most about 40 ms. */
const MAX_MATCHING = 200_000;

const TOO_MANY_KEYS: DesiredState = {
  kind: 'fail',
  ...because(
    'TooLarge',
    'the patterns in copyLabels and copyAnnotations are too large for so many labels and annotations of the source',
  ),
};

type PresentSource = Extract<SourceView, { state: 'present' }>;

export class MirrorShape implements Shape {
  readonly id: string;
  readonly #options: MirrorShapeOptions;
  /** @see CHOICE_ANNOTATION */
  readonly #choice: string | undefined;
  /** The labels and annotations of the copies for one version of the source. All copies share them. */
  #last: { version: string; labels: FieldPatch; annotations: FieldPatch } | undefined;

  constructor(options: MirrorShapeOptions) {
    this.#options = options;
    const { owner, retain, vaultPath, choices } = options;
    const what = [choices?.keys?.id ?? null, choices?.type ?? null];
    const isChosen = what.some((part) => part !== null);
    this.#choice = isChosen ? createHash('sha256').update(JSON.stringify(what)).digest('base64url') : undefined;
    // The id is JSON, because a path in Vault may contain spaces.
    this.id = JSON.stringify(['mirror', owner, retain, vaultPath, choices?.id]);
  }

  #copiedFrom({ version, lease, ...source }: PresentSource) {
    const { choices, vaultPath } = this.#options;
    const { copiesLabel = isCopied, copiesAnnotation = isCopied } = choices ?? {};
    const labels = copiedMetadata(source.labels, copiesLabel);
    const annotations = copiedMetadata(vaultPath === undefined ? source.annotations : {}, copiesAnnotation);
    return {
      version,
      labels: { ...labels, ...choices?.labels, [COPY_LABEL]: 'mirrors' },
      annotations: {
        ...annotations,
        ...choices?.annotations,
        ...(this.#choice === undefined ? {} : { [CHOICE_ANNOTATION]: this.#choice }),
        [MIRROR_ANNOTATIONS.ownedBy]: this.#options.owner,
        ...this.#origin(lease),
        [RETAIN_ANNOTATION]: this.#options.retain ? 'true' : null,
      },
    };
  }

  desiredState(source: SourceView, observed: Observed | undefined, now: number): DesiredState {
    if (observed?.trimmed === true) return TOO_LARGE;
    switch (source.state) {
      case 'unknown':
        return UNREAD;
      case 'missing':
        return { kind: 'wait', for: 'source', ...causeOf(source) };
      case 'failed':
        return failing(source);
      case 'present':
        break;
      default:
        return source satisfies never;
    }
    const { choices } = this.#options;
    if (this.#last?.version !== source.version) {
      if (isTooMuch(source, choices)) return TOO_MANY_KEYS;
      this.#last = this.#copiedFrom(source);
    }
    const { labels, annotations } = this.#last;
    return {
      kind: 'be',
      labels,
      annotations,
      bookkeeping: { ...this.#bookkeeping(source), [MIRROR_ANNOTATIONS.lastSyncAt]: goTime(now) },
      data: 'source',
      ...(choices?.type === undefined ? {} : { type: choices.type }),
    };
  }

  heldVersion(observed: Observed): string | undefined {
    if (observed.annotations[CHOICE_ANNOTATION] !== this.#choice) return undefined;
    const mark = this.#options.vaultPath === undefined ? MIRROR_ANNOTATIONS.parentVersion : SOURCE_VERSION_ANNOTATION;
    return observed.annotations[mark];
  }

  #origin(lease: SourceLease | undefined): FieldPatch {
    const { vaultPath, sourceType = vaultPath === undefined ? 'secret' : 'vault' } = this.#options;
    return {
      [MIRROR_ANNOTATIONS.sourceType]: sourceType,
      [MIRROR_ANNOTATIONS.vaultPath]: vaultPath ?? null,
      [MIRROR_ANNOTATIONS.vaultLeaseId]: lease?.id ?? null,
      [LEASE_ORIGIN_ANNOTATION]: lease?.origin ?? null,
    };
  }

  /** The annotations for version and lease duration. A renewal changes the duration; this alone must cause no write. */
  #bookkeeping({ version, lease }: PresentSource): FieldPatch {
    if (this.#options.vaultPath === undefined) return { [MIRROR_ANNOTATIONS.parentVersion]: version };
    return {
      [MIRROR_ANNOTATIONS.parentVersion]: '',
      [SOURCE_VERSION_ANNOTATION]: version,
      [MIRROR_ANNOTATIONS.vaultLeaseDuration]: lease === undefined ? null : String(lease.seconds),
    };
  }
}

/** Whether the patterns for the keys of labels and annotations would take longer than one step may. */
function isTooMuch({ labels, annotations }: PresentSource, choices: Choices | undefined): boolean {
  const keys = [...Object.keys(labels), ...Object.keys(annotations)];
  return keys.join('').length * (choices?.patternSize ?? 0) > MAX_MATCHING;
}

/**
 * The desired state of copies that a deleted mirror retains: unchanged, but with the annotation `keyferry.dev/retain`.
 * If a copy has no room for it, it takes the place of the owner's mark, so that large annotations of a user do not
 * block the deletion of the mirror.
 */
export class RetainShape implements Shape {
  readonly id: string;
  readonly #owner: string;

  /** @param owner `<namespace>/<name>` of the mirror */
  constructor(owner: string) {
    this.id = `retain ${owner}`;
    this.#owner = owner;
  }

  desiredState(_source: SourceView, observed: Observed | undefined): DesiredState {
    // The copy of another mirror is not taken over, because it would then be retained.
    if (observed?.annotations[MIRROR_ANNOTATIONS.ownedBy] !== this.#owner)
      return { kind: 'wait', for: 'target', ...because('Gone') };
    const { labels, annotations } = observed;
    const isDisowned = observed.full === true && annotations[RETAIN_ANNOTATION] !== 'true';
    return {
      kind: 'be',
      labels,
      annotations: {
        ...annotations,
        [RETAIN_ANNOTATION]: 'true',
        ...(isDisowned ? { [MIRROR_ANNOTATIONS.ownedBy]: null } : {}),
      },
      bookkeeping: {},
      data: 'keep',
      type: '',
    };
  }

  heldVersion(): undefined {
    return undefined;
  }
}

/** A time in the format of Go's `Time.String`, which the original writes to `last-sync-at`. */
export function goTime(ms: number): string {
  const iso = new Date(ms).toISOString();
  const fraction = iso.slice(20, 23).replace(/0+$/, '');
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)}${fraction === '' ? '' : `.${fraction}`} +0000 UTC`;
}
