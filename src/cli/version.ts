/** Defined by the bundler. */
declare const KEYFERRY_VERSION: string | undefined;
/** Defined by the bundler. */
declare const KEYFERRY_COMMIT: string | undefined;

/** The version of Keyferry; `dev` if it runs unbundled. */
export const VERSION: string = typeof KEYFERRY_VERSION === 'undefined' ? 'dev' : KEYFERRY_VERSION;

export interface Build {
  readonly version: string;
  /** The Git commit; `unknown` if it was built without a checkout. With `-dirty`, files differ from it. */
  readonly commit: string;
  /** The version of Node that runs it, without `v`. */
  readonly node: string;
  /** `linux/x64`, in the words of Node. */
  readonly platform: string;
}

/** What runs here. */
export const BUILD: Build = {
  version: VERSION,
  commit: typeof KEYFERRY_COMMIT === 'undefined' ? 'unknown' : KEYFERRY_COMMIT,
  node: process.versions.node,
  platform: `${process.platform}/${process.arch}`,
};
