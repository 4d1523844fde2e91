/**
 * The memory of targets between runs, and the state of one target during a run.
 *
 * The memory only saves requests, and can be lost at any time:
 * - `held`: the content of the target at one version, from an own write or a read. The type in it counts for every
 *   version, because the type of an object cannot change;
 * - `deleted`: the uid of the object that Keyferry deleted, until a watch reports that it is gone;
 * - `cleared`: the target is gone, so it can be created without a read;
 * - `watchedByName`: the target is followed by name, because an object of a user exists in its place;
 * - `lost`: the copy lost Keyferry's label, or left its watch although Keyferry did not delete it;
 * - `repairs`: number of recent writes that undid a change by another client;
 * - `overwritten`: number of writes in a row that the server changed;
 * - `wrote`, `filled`: the version of the source in the last write, also when the target is gone; `wroteAs`, `filledAs`:
 *   the shape of that write.
 *
 * A target without any of these has no entry. Most targets have `held` and `wrote` alone.
 */
import { isOlder } from '../../../kube/api.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import type { Content } from '../../model/content.ts';
import type { ObjectKey, ResourceKey } from '../../model/keys.ts';
import { contentVersion, immutableBy, observe, type Observed } from '../../model/observed.ts';
import type { TargetReader, TargetState } from '../../plan/decide.ts';
import type { RepairMemory } from '../../plan/repairs.ts';
import type { KubeStore, StoredContent } from '../objects/store.ts';

/**
 * Rare fields are absent until they are needed, to save memory. Afterwards they are set to `undefined`, not deleted: V8
 * keeps an object with a deleted field in a hash table, which takes five times as much memory. `&&=` adds no field.
 */
export interface Memory extends RepairMemory {
  held: StoredContent | undefined;
  deleted?: string | undefined;
  cleared?: boolean;
  watchedByName?: boolean;
  lost?: boolean;
}

export class TargetMemory {
  readonly #targets = new Map<ObjectKey, Memory>();

  get(target: ObjectKey): Readonly<Memory> | undefined {
    return this.#targets.get(target);
  }

  /** The memory of a target, to change it. A caller that clears a field must call `removeIfEmpty`. */
  edit(target: ObjectKey): Memory {
    return getOrCreate(this.#targets, target, () => ({ held: undefined, wrote: undefined, wroteAs: undefined }));
  }

  /** @param type type of the target, which may differ from its content's; '' or undefined: the known type stays */
  storeContent(target: ObjectKey, { type, ...held }: StoredContent): void {
    const memory = this.edit(target);
    memory.held = { ...held, type: type === undefined || type === '' ? memory.held?.type : type };
  }

  /** Forgets the content of a target, because the store has it as well. */
  forgetContent(target: ObjectKey): void {
    this.edit(target).held = undefined;
  }

  /** Called when the object of the target is gone. */
  objectGone(target: ObjectKey): void {
    const memory = this.#targets.get(target);
    if (memory === undefined) return;
    if (memory.deleted !== undefined) memory.cleared = true;
    memory.deleted &&= undefined;
    memory.held = undefined;
  }

  /** Removes the memory of a target if all its fields are empty. @param claimed whether a rule claims the target */
  removeIfEmpty(target: ObjectKey, claimed: boolean): void {
    const memory = this.#targets.get(target);
    if (memory === undefined) return;
    if (!claimed) {
      memory.held = undefined;
      memory.cleared &&= false;
      memory.repairs &&= undefined;
      memory.overwritten &&= undefined;
      memory.wrote = memory.wroteAs = undefined;
      memory.filled &&= undefined;
      memory.filledAs &&= undefined;
    }
    const { held, deleted, cleared, watchedByName, lost, repairs, overwritten, wrote, filled } = memory;
    const isUsed = [held, deleted, cleared, watchedByName, lost, repairs, overwritten, wrote, filled].some(Boolean);
    if (!isUsed) this.#targets.delete(target);
  }
}

/** The state of a target during one run: from the index, the memory of earlier runs, and the reads of this run. */
export class TargetRun implements TargetReader {
  readonly target: ObjectKey;
  readonly signal: AbortSignal;
  /** The target as this run has read it; `null`: it did not exist; `undefined`: not read. */
  lastRead: Observed | null | undefined;
  /** The content that this run has read last. */
  lastContent: Content | undefined;
  /** Uid of the object that this run has deleted. It counts as gone, even if the index still has it. */
  deletedUid: string | undefined;
  /** The server refused to update the target, so it has to be replaced. */
  cannotUpdate = false;
  /** @see Facts.takeoverFailed */
  takeoverFailed = false;
  readonly #store: KubeStore;
  readonly #memory: TargetMemory;

  constructor(target: ObjectKey, signal: AbortSignal, store: KubeStore, memory: TargetMemory) {
    this.target = target;
    this.signal = signal;
    this.#store = store;
    this.#memory = memory;
  }

  state(): TargetState {
    const store = this.#store;
    const { target } = this;
    const indexed = store.index.find(target);
    const latest = newer(indexed, this.lastRead ?? undefined);
    const gone = latest !== undefined && latest.uid === this.deletedUid;
    const observed = gone ? undefined : latest;
    const memory = this.#memory.get(target);
    const known = gone || store.isKnown(target) || this.lastRead === null || memory?.cleared === true;
    const kept = memory?.held;
    const version = observed && contentVersion(observed);
    // Only the memory knows the digest of a part.
    const isPart = kept?.part !== undefined && kept.version === version;
    const held = isPart ? kept : ((observed && store.heldIn(target, observed)) ?? kept);
    const isHeld = version !== undefined && held?.version === version;
    return {
      presence: observed !== undefined ? 'present' : known ? 'absent' : 'unknown',
      observed,
      goingAway:
        !gone &&
        memory?.deleted !== undefined &&
        (observed === undefined || memory.deleted === observed.uid) &&
        indexed !== undefined,
      held,
      type: store.kind.typed ? ((isHeld ? held.type : undefined) ?? memory?.held?.type) : '',
      immutable: isHeld ? held.immutable : observed && immutableBy(observed),
      isCustom: store.kind.isCustom === true,
      cannotUpdate: this.cannotUpdate,
      takeoverFailed: this.takeoverFailed,
    };
  }

  async read(_target?: ResourceKey, part?: readonly string[]): Promise<true> {
    const { target, signal } = this;
    const read = await this.#store.read(target, signal);
    if (read === undefined) {
      this.lastRead = null;
      return true;
    }
    const { content, immutable } = read;
    this.lastRead = observe(read.metadata, this.#store.kind);
    this.cannotUpdate = immutable && this.#store.kind.isCustom !== true;
    const { version, fingerprint, type } = content;
    this.lastContent = content;
    this.#memory.storeContent(target, { version, fingerprint, type, immutable, part: part && content.digestOf(part) });
    return true;
  }
}

function newer(indexed: Observed | undefined, read: Observed | undefined): Observed | undefined {
  if (indexed === undefined || read === undefined) return indexed ?? read;
  return isOlder(indexed.resourceVersion, read.resourceVersion) ? read : indexed;
}
