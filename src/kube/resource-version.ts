/**
 * Compares resource versions. Those of one cluster can be compared as numbers (KEP-5504; true of every etcd-backed server before
 * it). Some servers count in nanoseconds: more digits than a JavaScript number has.
 */

const NUMBER = /^(?:0|[1-9]\d*)$/;

/** `false` also where they are not numbers: then the last one received counts. */
export function isOlder(version: string, than: string): boolean {
  if (version.length === than.length ? version >= than : version.length > than.length) return false;
  return NUMBER.test(version) && NUMBER.test(than);
}
