/** Makes keys from texts, for tests. Keyferry makes its keys in `src/copy/model/keys.ts`. */
/* oxlint-disable typescript/no-unnecessary-type-parameters -- the context of the caller gives the type */

/** @param text - a key of the type that the caller needs: `mirrors:default/x`, `local:Secret/default/x` */
export function asKey<Key extends string>(text: string): Key;
export function asKey<Key extends string>(text: string | undefined): Key | undefined;
export function asKey(text: string | undefined): string | undefined {
  return text;
}

/** Several keys of the type that the caller needs. */
export function asKeys<Key extends string>(texts: readonly string[]): Key[] {
  return texts.map((text) => asKey<Key>(text));
}
