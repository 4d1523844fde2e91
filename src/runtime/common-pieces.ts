/**
 * Finds the pieces that a short text has in common with long ones, reading each long text once: a value of a million equal letters must
 * not keep the process busy.
 */

/**
 * Marks every character of `text` that belongs to a piece of `length` characters which also stands in one of `forms`.
 *
 * @param length length of the shortest piece that counts, even
 * @param marks one byte for each character of `text`; the characters found are set to 1, the others are left as they are
 */
export function markCommonPieces(text: string, forms: Iterable<string>, length: number, marks: Uint8Array): void {
  // Any piece of a form holds a gram that begins at a multiple of half its length, so only these places of a form are looked at.
  const step = length / 2;
  const grams = new Set<string>();
  for (let at = 0; at + step <= text.length; at += 1) grams.add(text.slice(at, at + step));
  const places = new Map<string, number[]>();
  for (let at = 0; at + length <= text.length; at += 1) {
    const piece = text.slice(at, at + length);
    const known = places.get(piece);
    if (known === undefined) places.set(piece, [at]);
    else known.push(at);
  }
  for (const form of forms) {
    for (let gram = 0; gram + step <= form.length; gram += step) {
      if (!grams.has(form.slice(gram, gram + step))) continue;
      for (let start = Math.max(0, gram - step + 1); start <= gram; start += 1) {
        const piece = form.slice(start, start + length);
        for (const at of places.get(piece) ?? []) marks.fill(1, at, at + length);
        // All its places are marked now.
        places.delete(piece);
      }
    }
  }
}
