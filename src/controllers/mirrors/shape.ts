/** How the copies of a SecretMirror look (contract of ktsstudio/mirrors, with what must not travel left behind). */
import type { DesiredState, FieldPatch, Shape, SourceLease, SourceView } from '../../copy/model/claim.ts';
import { lengthProblem, MAX_KEPT, type Observed } from '../../copy/model/observed.ts';
import { isCopied, OWN_PREFIX } from '../common/never-copied.ts';
import { MIRROR_ANNOTATIONS, MIRRORS_GROUP } from './api.ts';

/** Selects our copies on the server. The value is the system. */
export const COPY_LABEL = 'keyferry.dev/copy';
/** On copies whose mirror says `deletePolicy: retain`: they stay when nobody wants them any more. */
export const RETAIN_ANNOTATION = 'keyferry.dev/retain';
/** On copies of a Vault source: which version of it they hold. The original's own mark for that stays empty there. */
export const SOURCE_VERSION_ANNOTATION = 'keyferry.dev/source-version';
/** On copies of dynamic credentials: what their lease belongs to (`vaultLeaseOrigin`). */
export const LEASE_ORIGIN_ANNOTATION = 'keyferry.dev/vault-lease-origin';

/** Annotations that are read on copies, and never copied. */
export function isReadOfCopies(annotation: string): boolean {
  return annotation.startsWith(OWN_PREFIX) || annotation.startsWith(`${MIRRORS_GROUP}/`);
}

/** So many annotations of a copy are not known that nobody can say whether those are there which should be. */
const TOO_LARGE: DesiredState = {
  kind: 'fail',
  reason: 'TooLarge',
  message: `the copy has more than ${MAX_KEPT / 1024} KiB of labels or annotations of its own; it is left as it is`,
};

export interface MirrorShapeOptions {
  /** `<namespace>/<name>` of the mirror. */
  readonly owner: string;
  readonly retain: boolean;
  /** The path of a Vault source, as it is written in the mirror; `undefined`: the source is a Secret. */
  readonly vaultPath?: string | undefined;
}

export class MirrorShape implements Shape {
  readonly id: string;
  readonly #options: MirrorShapeOptions;
  /** The last source seen, and what its copies carry: the same for all of them. */
  #last: { version: string; labels: FieldPatch; annotations: FieldPatch } | undefined;

  constructor(options: MirrorShapeOptions) {
    this.#options = options;
    const { owner, retain, vaultPath } = options;
    this.id = `mirror ${owner} ${retain ? 'retain' : 'delete'}${vaultPath === undefined ? '' : ` ${vaultPath}`}`;
  }

  desiredState(source: SourceView, observed: Observed | undefined, now: number): DesiredState {
    if (observed?.trimmed === true) return TOO_LARGE;
    switch (source.state) {
      case 'unknown':
        return { kind: 'wait', for: 'watch', reason: 'Pending', message: 'the source has not been looked up yet' };
      case 'missing':
        return { kind: 'wait', for: 'source', reason: source.reason, message: source.message };
      case 'failed':
        return { kind: 'fail', reason: source.reason, message: source.message };
      case 'present':
        break;
      default:
        return source satisfies never;
    }
    if (this.#last?.version !== source.version) {
      this.#last = {
        version: source.version,
        labels: { ...copied(source.labels), [COPY_LABEL]: 'mirrors' },
        annotations: {
          ...(this.#options.vaultPath === undefined ? copied(source.annotations) : {}),
          [MIRROR_ANNOTATIONS.ownedBy]: this.#options.owner,
          ...this.#origin(source.lease),
          [RETAIN_ANNOTATION]: this.#options.retain ? 'true' : null,
        },
      };
    }
    return {
      kind: 'be',
      labels: this.#last.labels,
      annotations: this.#last.annotations,
      bookkeeping: { ...this.#bookkeeping(source), [MIRROR_ANNOTATIONS.lastSyncAt]: goTime(now) },
      data: 'source',
    };
  }

  heldVersion(observed: Observed): string | undefined {
    const mark = this.#options.vaultPath === undefined ? MIRROR_ANNOTATIONS.parentVersion : SOURCE_VERSION_ANNOTATION;
    return observed.annotations[mark];
  }

  #origin(lease: SourceLease | undefined): FieldPatch {
    const { vaultPath } = this.#options;
    return {
      [MIRROR_ANNOTATIONS.sourceType]: vaultPath === undefined ? 'secret' : 'vault',
      [MIRROR_ANNOTATIONS.vaultPath]: vaultPath ?? null,
      [MIRROR_ANNOTATIONS.vaultLeaseId]: lease?.id ?? null,
      [LEASE_ORIGIN_ANNOTATION]: lease?.origin ?? null,
    };
  }

  /** A lease's duration changes with its renewals, which are no reason to write copies. */
  #bookkeeping({ version, lease }: Extract<SourceView, { state: 'present' }>): FieldPatch {
    if (this.#options.vaultPath === undefined) return { [MIRROR_ANNOTATIONS.parentVersion]: version };
    return {
      [MIRROR_ANNOTATIONS.parentVersion]: '',
      [SOURCE_VERSION_ANNOTATION]: version,
      [MIRROR_ANNOTATIONS.vaultLeaseDuration]: lease === undefined ? null : String(lease.seconds),
    };
  }
}

/**
 * How copies look whose mirror goes and retains them: as they are, and with the mark that they stay. Where there is no room for that mark, the
 * mark of ownership is taken off, and the copy stays as nobody's: whoever may annotate a copy must not be able to hold up its mirror.
 */
export class RetainShape implements Shape {
  readonly id: string;

  /** @param owner `<namespace>/<name>` of the mirror */
  constructor(owner: string) {
    this.id = `retain ${owner}`;
  }

  desiredState(_source: SourceView, observed: Observed | undefined): DesiredState {
    if (observed === undefined)
      return { kind: 'wait', for: 'target', reason: 'Gone', message: 'there is no copy to retain' };
    const { labels, annotations } = observed;
    const isDisowned = observed.full === true && annotations[RETAIN_ANNOTATION] !== 'true';
    return {
      kind: 'be',
      labels: isDisowned ? { ...labels, [COPY_LABEL]: null } : labels,
      annotations: {
        ...annotations,
        ...(isDisowned ? { [MIRROR_ANNOTATIONS.ownedBy]: null } : { [RETAIN_ANNOTATION]: 'true' }),
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

function copied(map: Readonly<Record<string, string>>): Record<string, string> {
  const entries = Object.entries(map).filter(([key, value]) => isCopied(key) && lengthProblem(value) === undefined);
  return Object.fromEntries(entries);
}

/** A time as Go's `Time.String` prints it, which is what the original writes into `last-sync-at`. */
export function goTime(ms: number): string {
  const iso = new Date(ms).toISOString();
  const fraction = iso.slice(20, 23).replace(/0+$/, '');
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)}${fraction === '' ? '' : `.${fraction}`} +0000 UTC`;
}
