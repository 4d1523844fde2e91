/** Which names Kubernetes accepts for objects and namespaces (DNS names, RFC 1123), labels and keys of data. */

const LABEL = '[a-z0-9](?:[-a-z0-9]*[a-z0-9])?';
const ONE_LABEL = new RegExp(`^${LABEL}$`);
const SUBDOMAIN = new RegExp(`^${LABEL}(?:\\.${LABEL})*$`);

/** Whether a text is a DNS subdomain, as the names of most objects are. */
export function isSubdomain(text: string): boolean {
  return text.length <= 253 && SUBDOMAIN.test(text);
}

const NAME = /^[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

/** Whether a text is a key of a label or annotation: a name, or a DNS subdomain, a slash and a name. */
export function isMetadataKey(text: string): boolean {
  const slash = text.indexOf('/');
  return NAME.test(text.slice(slash + 1)) && (slash < 0 || isSubdomain(text.slice(0, slash)));
}

export function isLabelValue(text: string): boolean {
  return text === '' || NAME.test(text);
}

const DATA_KEY = /^[-._a-zA-Z0-9]{1,253}$/;

/**
 * Whether a text can be a key in the data of a Secret or ConfigMap: 1–253 letters, digits, `-`, `_` and `.`, but not
 * `.`, and without `..` at the beginning (IsConfigMapKey in k8s.io/apimachinery/pkg/util/validation).
 */
export function isDataKey(text: string): boolean {
  return DATA_KEY.test(text) && text !== '.' && !text.startsWith('..');
}

/** Checks the name in a field, because the name becomes part of a request path. @returns the problems; empty: none */
export function nameProblems(field: string, name: string | undefined): string[] {
  if (name === undefined) return [`${field}: must be specified`];
  if (isSubdomain(name)) return [];
  const shown = JSON.stringify(name.slice(0, 63));
  return [`${field}: ${shown} is not a valid object name: use lower case letters, digits, - and .`];
}

/** Whether a text is a DNS label, as the names of namespaces are. */
export function isDnsLabel(text: string): boolean {
  return text.length <= 63 && ONE_LABEL.test(text);
}
