/** Makes keys (of rules, resources) from texts. Only tests may do this: Keyferry uses `src/copy/model/keys.ts`. */
/* oxlint-disable typescript/no-unnecessary-type-parameters -- the context of the caller gives the type */

/** @param text - the key as text: `mirrors:default/x`, `local:Secret/default/x`. The caller's type decides its kind */
export function asKey<Key extends string>(text: string): Key;
export function asKey<Key extends string>(text: string | undefined): Key | undefined;
export function asKey(text: string | undefined): string | undefined {
  return text;
}

/** Makes several keys of the same type. The caller's type decides their kind. */
export function asKeys<Key extends string>(texts: readonly string[]): Key[] {
  return texts.map((text) => asKey<Key>(text));
}
