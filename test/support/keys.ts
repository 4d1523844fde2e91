/** Keys as text, for tests. Keyferry makes its keys in `src/copy/model/keys.ts`. */

/** @param text the key of the type that the caller needs: `mirrors:default/x`, `local:Secret/default/x` */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the caller's context gives the type
export function asKey<Key extends string>(text: string): Key {
  return text as Key;
}
