/** The CustomResourceDefinitions for `keyferry crds`. The bundle contains them, so the program needs no other file. */

/** Defined by the bundler from `deploy/crds/`. */
declare const KEYFERRY_CRDS: string | undefined;

/** All of them as YAML documents; empty if the program runs unbundled. */
export const BUNDLED_CRDS: string = typeof KEYFERRY_CRDS === 'undefined' ? '' : KEYFERRY_CRDS;

/** All of them, ready for `kubectl apply -f -`. @throws Error if the program runs unbundled */
export function crds(): string {
  if (BUNDLED_CRDS === '') throw new Error('only the bundle has the CRDs; see deploy/crds/');
  return BUNDLED_CRDS;
}
