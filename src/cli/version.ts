/** Defined by the bundler. */
declare const KEYFERRY_VERSION: string | undefined;

/** The version of Keyferry; `dev` if it runs unbundled. */
export const VERSION: string = typeof KEYFERRY_VERSION === 'undefined' ? 'dev' : KEYFERRY_VERSION;
