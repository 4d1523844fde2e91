/** The CustomResourceDefinitions for `keyferry crds`. The bundle contains them, so the program needs no other file. */

/** Defined by the bundler from `deploy/crds/`. */
declare const KEYFERRY_CRDS: string | undefined;

/**
 * All CustomResourceDefinitions as YAML documents, ready for `kubectl apply -f -`.
 * @throws Error if the program runs unbundled
 */
export function crds(): string {
  if (typeof KEYFERRY_CRDS === 'undefined') throw new Error('only the bundle has the CRDs; see deploy/crds/');
  return KEYFERRY_CRDS;
}
