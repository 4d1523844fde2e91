/**
 * What is remembered of targets between runs. It is only there to save reading, and can be lost at any time:
 * - `held`: which content our own write (or a reading) put at which version;
 * - `deleted`: the uid that we have deleted, until a watch says that it is gone;
 * - `cleared`: it is gone, so that nobody need ask whether something without our label is left;
 * - `watchedByName`: the target is followed by name, because something that is not ours stands there;
 * - `repairs`: how often it was put right of late;
 * - `overwritten`: how often in a row the server stored something else than was written;
 * - `wrote`: which version of its source was last written into it, also when it is gone.
 *
 * A target of which nothing is remembered has no entry.
 */
import type { Content } from '../model/content.ts';
import type { ResourceKey } from '../model/keys.ts';
import { fingerprintOf } from '../model/fingerprint.ts';
import type { Held } from '../plan/facts.ts';
import type { RepairMemory } from '../plan/repairs.ts';

export interface Memory extends RepairMemory {
  held?: Held;
  /** The target's type: it cannot change. */
  type?: string;
  deleted?: string;
  cleared?: true;
  watchedByName?: boolean;
}

export class TargetMemory {
  readonly #targets = new Map<ResourceKey, Memory>();

  get(target: ResourceKey): Readonly<Memory> | undefined {
    return this.#targets.get(target);
  }

  /** To write into; `tidy` when something was taken out. */
  of(target: ResourceKey): Memory {
    let memory = this.#targets.get(target);
    if (memory === undefined) this.#targets.set(target, (memory = {}));
    return memory;
  }

  /** @param type the target's, which need not be the content's; '': not known */
  hold(target: ResourceKey, resourceVersion: string, content: Content, type: string): void {
    const memory = this.of(target);
    memory.held = { resourceVersion, fingerprint: fingerprintOf(content) };
    if (type !== '') memory.type = type;
  }

  /** The object is gone: what it held and was no longer counts. */
  left(target: ResourceKey): void {
    const memory = this.#targets.get(target);
    if (memory === undefined) return;
    if (memory.deleted !== undefined) memory.cleared = true;
    delete memory.held;
    delete memory.deleted;
    delete memory.type;
  }

  /** @param claimed somebody wants the target still */
  tidy(target: ResourceKey, claimed: boolean): void {
    const memory = this.#targets.get(target);
    if (memory === undefined) return;
    if (!claimed) {
      delete memory.held;
      delete memory.type;
      delete memory.cleared;
      delete memory.repairs;
      delete memory.overwritten;
      delete memory.wrote;
    }
    if (Object.keys(memory).length === 0) this.#targets.delete(target);
  }
}
