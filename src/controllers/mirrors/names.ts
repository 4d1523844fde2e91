/** Names as they may stand in the path of a request. What a mirror says may be from a time before the CRD checked anything. */

/** A DNS subdomain (RFC 1123), as the names of Secrets are. */
const OBJECT_NAME = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;
/** A DNS label (RFC 1123), as the names of namespaces are. */
const NAMESPACE = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/;

export function isObjectName(name: string): boolean {
  return name.length <= 253 && OBJECT_NAME.test(name);
}

export function isNamespaceName(name: string): boolean {
  return name.length <= 63 && NAMESPACE.test(name);
}
