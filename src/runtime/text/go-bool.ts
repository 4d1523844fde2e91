/** Booleans as Go programs read them, in flags and in the annotations of k8s-replicator. */

/** Parses the values that Go's `strconv.ParseBool` accepts. @throws RangeError for anything else */
export function parseBool(text: string): boolean {
  if (['1', 't', 'T', 'TRUE', 'true', 'True'].includes(text)) return true;
  if (['0', 'f', 'F', 'FALSE', 'false', 'False'].includes(text)) return false;
  throw new RangeError('must be true or false');
}
