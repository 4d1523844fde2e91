/** Names as DNS has them (RFC 1123), which those of objects and namespaces, and the prefixes of labels and annotations, follow. */

const LABEL = '[a-z0-9](?:[-a-z0-9]*[a-z0-9])?';
const ONE_LABEL = new RegExp(`^${LABEL}$`);
const SUBDOMAIN = new RegExp(`^${LABEL}(?:\\.${LABEL})*$`);

/** Whether a text is a DNS subdomain, as the names of most objects are. */
export function isSubdomain(text: string): boolean {
  return text.length <= 253 && SUBDOMAIN.test(text);
}

/** Whether a text is a DNS label, as the names of namespaces are. */
export function isDnsLabel(text: string): boolean {
  return text.length <= 63 && ONE_LABEL.test(text);
}
