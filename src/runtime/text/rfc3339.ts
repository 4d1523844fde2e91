/** A time as Kubernetes writes it, and Go's RFC 3339 in UTC: whole seconds. */
export function rfc3339(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}
