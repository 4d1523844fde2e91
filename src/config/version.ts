/** Defined by the bundler. */
declare const KEYFERRY_VERSION: string | undefined;
/** Defined by the bundler. */
declare const KEYFERRY_COMMIT: string | undefined;
/** Defined by the bundler. */
declare const KEYFERRY_TESTED: readonly TestedVersions[] | undefined;

/** The version of Keyferry; `dev` if it runs unbundled. */
export const VERSION: string = typeof KEYFERRY_VERSION === 'undefined' ? 'dev' : KEYFERRY_VERSION;

/** Servers with which all scenarios passed. The test run that `npm run test:matrix` records may be older than the build. */
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
  /** The Git commit; `unknown` if it was built without a checkout. With `-dirty`, files differ from it. */
  readonly commit: string;
  /** The version of Node that runs it, without `v`. */
  readonly node: string;
  /** `linux/x64`, in the words of Node. */
  readonly platform: string;
  /** Empty if it runs unbundled. */
  readonly tested: readonly TestedVersions[];
}

/** What runs here. */
export const BUILD: Build = {
  version: VERSION,
  commit: typeof KEYFERRY_COMMIT === 'undefined' ? 'unknown' : KEYFERRY_COMMIT,
  node: process.versions.node,
  platform: `${process.platform}/${process.arch}`,
  tested: typeof KEYFERRY_TESTED === 'undefined' ? [] : KEYFERRY_TESTED,
};
