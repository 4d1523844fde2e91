/** The state of a target during one run: from the index, the memory of earlier runs, and the reads of this run. */
import { isOlder } from '../../../kube/api.ts';
import type { ObjectKey } from '../../model/keys.ts';
import { contentVersion, immutableBy, observe, type Observed } from '../../model/observed.ts';
import type { TargetReader, TargetState } from '../../plan/decide.ts';
import type { KubeStore, StoredContent } from '../objects/store.ts';
import type { Memory, TargetMemory } from './target-memory.ts';

export class TargetRun implements TargetReader {
  /** The target as this run has read it; `null`: it did not exist. */
  lastRead: Observed | null | undefined;
  /** Uid of the object that this run deleted and the server reported as gone; the watch may be behind. */
  deletedUid: string | undefined;
  /** The server refused to change the target as it is. */
  cannotUpdate = false;
  /** @see Facts.takeoverFailed */
  takeoverFailed = false;
  readonly #store: KubeStore;
  readonly #memory: TargetMemory;
  readonly #signal: AbortSignal | undefined;

  constructor(store: KubeStore, memory: TargetMemory, signal?: AbortSignal) {
    this.#store = store;
    this.#memory = memory;
    this.#signal = signal;
  }

  state(target: ObjectKey): TargetState {
    const store = this.#store;
    const indexed = store.index.find(target);
    const latest = newer(indexed, this.lastRead ?? undefined);
    const gone = latest !== undefined && latest.uid === this.deletedUid;
    const observed = gone ? undefined : latest;
    const memory = this.#memory.get(target);
    const known = gone || store.isKnown(target) || this.lastRead === null || memory?.cleared === true;
    const held = (observed && store.heldIn(target, observed)) ?? heldIn(memory);
    const isHeld = observed !== undefined && held?.version === contentVersion(observed);
    return {
      presence: observed !== undefined ? 'present' : known ? 'absent' : 'unknown',
      observed,
      goingAway:
        !gone &&
        memory?.deleted !== undefined &&
        (observed === undefined || memory.deleted === observed.uid) &&
        indexed !== undefined,
      held,
      type: store.kind.typed ? (isHeld && held.type !== undefined ? held.type : memory?.type) : '',
      immutable: isHeld ? held.immutable : observed && immutableBy(observed),
      isCustom: store.kind.isCustom === true,
      cannotUpdate: this.cannotUpdate,
      takeoverFailed: this.takeoverFailed,
    };
  }

  async read(target: ObjectKey): Promise<boolean> {
    const read = await this.#store.read(target, this.#signal);
    if (read === undefined) {
      this.lastRead = null;
      return true;
    }
    const { content, immutable } = read;
    this.lastRead = observe(read.metadata, this.#store.kind);
    this.cannotUpdate = immutable && this.#store.kind.isCustom !== true;
    this.#memory.storeContent(target, content.version, content, { type: content.type, immutable });
    return true;
  }
}

function heldIn({ held, heldVersion, immutable }: Readonly<Memory> = {}): StoredContent | undefined {
  if (held === undefined || heldVersion === undefined) return undefined;
  return { version: heldVersion, fingerprint: held, immutable: immutable === true };
}

function newer(indexed: Observed | undefined, read: Observed | undefined): Observed | undefined {
  if (indexed === undefined || read === undefined) return indexed ?? read;
  return isOlder(indexed.resourceVersion, read.resourceVersion) ? read : indexed;
}
