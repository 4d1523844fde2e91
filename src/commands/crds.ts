/** The CustomResourceDefinitions for `keyferry crds`. The bundle contains them, so Keyferry reads no file for them. */

/** The CRDs as YAML. `scripts/build.ts` puts the files of `deploy/crds/` here. */
declare const KEYFERRY_CRDS: string | undefined;

/** All CRDs as YAML documents; empty: the program does not run as a bundle. */
const BUNDLED_CRDS: string = typeof KEYFERRY_CRDS === 'undefined' ? '' : KEYFERRY_CRDS;

/** The CRDs for `kubectl apply -f -`. @throws Error: the program does not run as a bundle */
export function crds(): string {
  if (BUNDLED_CRDS === '') throw new Error('only the bundle has the CRDs; see deploy/crds/');
  return BUNDLED_CRDS;
}
