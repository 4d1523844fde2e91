/** The CustomResourceDefinitions for `keyferry crds`. They are in the bundle, so the program needs no other file. */

/** The bundler makes it of `deploy/crds/`. */
declare const KEYFERRY_CRDS: string | undefined;

/** All CRDs as YAML documents; empty: the program does not run as a bundle. */
export const BUNDLED_CRDS: string = typeof KEYFERRY_CRDS === 'undefined' ? '' : KEYFERRY_CRDS;

/** The CRDs for `kubectl apply -f -`. @throws Error: the program does not run as a bundle */
export function crds(): string {
  if (BUNDLED_CRDS === '') throw new Error('only the bundle has the CRDs; see deploy/crds/');
  return BUNDLED_CRDS;
}
