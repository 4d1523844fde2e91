/** The first `most` names, and how many there are besides: `a, b and 3 more`. Users choose the number of names, so a message cannot have all. */
export function someOf(names: readonly string[], most: number, separator = ', '): string {
  const rest = names.length - most;
  const named = names.slice(0, most).join(separator);
  return rest > 0 ? `${named} and ${rest} more` : named;
}
