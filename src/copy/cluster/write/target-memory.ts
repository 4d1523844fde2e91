/**
 * The memory of targets between runs. It only saves reads, and can be lost at any time:
 * - `held`, `heldVersion`, `immutable`: the content at one version, from our own write or a read;
 * - `deleted`: the uid that we deleted, until a watch reports that it is gone;
 * - `cleared`: the target is gone, so an object without our label need not be looked for;
 * - `watchedByName`: the target is followed by name, because an object of a user exists in its place;
 * - `repairs`: number of recent repairs;
 * - `overwritten`: number of writes in a row that the server changed;
 * - `wrote`: the version of the source in the last write, also when the target is gone.
 *
 * A target without any of these has no entry.
 */
import { getOrCreate } from '../../../runtime/maps.ts';
import type { Content } from '../../model/content.ts';
import type { ObjectKey } from '../../model/keys.ts';
import { type Fingerprint, fingerprintOf } from '../../model/fingerprint.ts';
import type { RepairMemory } from '../../plan/repairs.ts';

export interface Memory extends RepairMemory {
  held?: Fingerprint;
  /** The version of the target that has `held`. @see contentVersion */
  heldVersion?: string;
  /** The target is immutable in that version. */
  immutable?: true;
  /** The target's type: it cannot change. */
  type?: string;
  deleted?: string;
  cleared?: true;
  watchedByName?: boolean;
}

export class TargetMemory {
  readonly #targets = new Map<ObjectKey, Memory>();

  get(target: ObjectKey): Readonly<Memory> | undefined {
    return this.#targets.get(target);
  }

  /** For changes. Call `removeIfEmpty` after removing a field. */
  edit(target: ObjectKey): Memory {
    return getOrCreate(this.#targets, target, () => ({}));
  }

  /**
   * @param version of the target, see `contentVersion`
   * @param type the target's, which may differ from the content's; '': not known
   */
  storeContent(
    target: ObjectKey,
    version: string,
    content: Content,
    { type, immutable }: { readonly type: string; readonly immutable: boolean },
  ): void {
    this.storeHeld(target, version, fingerprintOf(content), immutable);
    if (type !== '') this.edit(target).type = type;
  }

  /** @param version of the target, which holds content with this fingerprint */
  storeHeld(target: ObjectKey, version: string, fingerprint: Fingerprint, immutable: boolean): void {
    const memory = this.edit(target);
    memory.held = fingerprint;
    memory.heldVersion = version;
    if (immutable) memory.immutable = true;
    else delete memory.immutable;
  }

  /** The object is gone. */
  objectGone(target: ObjectKey): void {
    const memory = this.#targets.get(target);
    if (memory === undefined) return;
    if (memory.deleted !== undefined) memory.cleared = true;
    delete memory.deleted;
    forgetContent(memory);
  }

  /** @param claimed a rule claims the target */
  removeIfEmpty(target: ObjectKey, claimed: boolean): void {
    const memory = this.#targets.get(target);
    if (memory === undefined) return;
    if (!claimed) {
      forgetContent(memory);
      delete memory.cleared;
      delete memory.repairs;
      delete memory.overwritten;
      delete memory.wrote;
    }
    if (Object.keys(memory).length === 0) this.#targets.delete(target);
  }
}

export function forgetContent(memory: Memory): void {
  delete memory.held;
  delete memory.heldVersion;
  delete memory.immutable;
  delete memory.type;
}
