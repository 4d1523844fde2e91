/** `1 copy`, `2 copies` */
export function copiesText(count: number): string {
  return count === 1 ? '1 copy' : `${count} copies`;
}
