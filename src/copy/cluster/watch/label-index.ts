/** Finds the names of objects (here: namespaces) by their labels. Each label of an object takes about 50 bytes. */
import { getOrCreate, SetMap } from '../../../runtime/maps.ts';
import type { LabelRead, Labels } from '../../../runtime/text/label-selector.ts';

export class LabelIndex {
  /** The names, by label key, then by label value. */
  readonly #names = new Map<string, SetMap<string, string>>();

  /** Records that the labels of the object `name` have changed from `before` to `after`. */
  replace(name: string, before: Labels = {}, after: Labels = {}): void {
    for (const [key, value] of Object.entries(before)) {
      const byValue = this.#names.get(key);
      if (after[key] === value || byValue === undefined) continue;
      byValue.delete(value, name);
      if (byValue.isEmpty) this.#names.delete(key);
    }
    for (const [key, value] of Object.entries(after)) {
      if (before[key] !== value) getOrCreate(this.#names, key, () => new SetMap()).add(value, name);
    }
  }

  /** The names with one of these labels. If labels change during the iteration, a name may come twice or not at all. */
  *having({ key, values }: LabelRead): Iterable<string> {
    const byValue = this.#names.get(key);
    for (const value of values ?? byValue?.keys() ?? []) yield* byValue?.get(value) ?? [];
  }

  /** How many names have one of these labels; a huge number if any value will do, because counting would take long. */
  count({ key, values }: LabelRead): number {
    const byValue = this.#names.get(key);
    let count = values === undefined ? Number.MAX_SAFE_INTEGER : 0;
    for (const value of values ?? []) count += byValue?.size(value) ?? 0;
    return count;
  }
}
