/** Put in by the bundler. */
declare const KEYFERRY_VERSION: string | undefined;

/** Keyferry's own version; `dev` where it runs unbundled. */
export const VERSION: string = typeof KEYFERRY_VERSION === 'undefined' ? 'dev' : KEYFERRY_VERSION;
