/** The bundler defines it. */
declare const KEYFERRY_VERSION: string | undefined;
/** The bundler defines it. */
declare const KEYFERRY_COMMIT: string | undefined;
/** The bundler defines it. */
declare const KEYFERRY_TESTED: readonly TestedVersions[] | undefined;

/** The version of Keyferry; `dev`: it runs from its sources, not as a bundle. */
export const VERSION: string = typeof KEYFERRY_VERSION === 'undefined' ? 'dev' : KEYFERRY_VERSION;

/** Servers with which all scenarios passed in a run of `npm run test:matrix`, perhaps of an earlier commit. */
export interface TestedVersions {
  /** `1.36.3` */
  readonly kubernetes: string;
  /** `Vault 1.13.0`, `OpenBao 2.4.0` */
  readonly vault: string;
  /** Version of the External Secrets Operator. */
  readonly externalSecrets: string;
  /** Day of the run, in UTC: `2026-01-31`. */
  readonly date: string;
}

export interface Build {
  readonly version: string;
  /** The Git commit. `unknown`: built without a checkout. `-dirty` at its end: files differed from the commit. */
  readonly commit: string;
  /** The running version of Node, without `v`. */
  readonly node: string;
  /** `linux/x64`, as Node names it. */
  readonly platform: string;
  /** Empty if Keyferry runs from its sources. */
  readonly tested: readonly TestedVersions[];
}

/** The build that is running. */
export const BUILD: Build = {
  version: VERSION,
  commit: typeof KEYFERRY_COMMIT === 'undefined' ? 'unknown' : KEYFERRY_COMMIT,
  node: process.versions.node,
  platform: `${process.platform}/${process.arch}`,
  tested: typeof KEYFERRY_TESTED === 'undefined' ? [] : KEYFERRY_TESTED,
};
