/** Finds out from the API server's message who refused a request, because status and reason do not say it. */

/**
 * - `permission`: RBAC, with the missing permission. - `quota`: a ResourceQuota. - `admission`: a webhook or policy.
 * - `validation`: the object is not valid. - `size`: the object is too large for the server or for etcd.
 */
export type ApiRefusal =
  | { readonly by: 'permission'; readonly verb: string; readonly resource: string }
  | { readonly by: 'quota' | 'admission' | 'validation' | 'size' };

// The beginning of the message says who refused a request. No name, webhook or policy can forge such a beginning: each
// expression is anchored, and the server quotes names (Go's %q), so a name ends at the first quote without a backslash.
// The API server makes these messages in staging/src/k8s.io of Kubernetes:
// - apimachinery/pkg/api/errors/errors.go: NewForbidden, NewInvalid
// - apiserver/pkg/endpoints/handlers/responsewriters/errors.go: RBAC
// - apiserver/pkg/admission/plugin/resourcequota/controller.go
// - apiserver/pkg/admission/plugin/webhook/errors/statuserror.go, policy/validating/dispatcher.go
const FORBIDDEN = /^[\w.-]+(?: "(?:[^"\\]|\\.)*")? is forbidden: /u;
const INVALID = /^[A-Z]\w*(?:\.[a-z0-9.-]+)? "(?:[^"\\]|\\.)*" is invalid: /u;
const BY_PERMISSION = /^User "(?:[^"\\]|\\.)*" cannot (\w+) resource "([\w./-]+)"/u;
const BY_QUOTA = /^(?:exceeded quota|failed quota|status unknown for quota|insufficient quota to consume): /u;
const BY_WEBHOOK = /^admission webhook "(?:[^"\\]|\\.)*" denied the request/u;
const BY_POLICY = /^ValidatingAdmissionPolicy '/u;
/** The whole message of etcd, and the beginning of the message of its client, up to a number. */
const TOO_LARGE =
  /^(?:etcdserver: request is too large$|rpc error: code = ResourceExhausted desc = trying to send message larger than max)/u;

/** `undefined`: the message does not tell who refused. @param message of the `Status`, before any redaction */
export function refusalIn(status: number, message: string): ApiRefusal | undefined {
  if (BY_WEBHOOK.test(message)) return { by: 'admission' };
  const rest = FORBIDDEN.test(message) ? message.replace(FORBIDDEN, '') : undefined;
  // A policy chooses its status freely, so only its message counts. Errors of etcd arrive as a 500.
  if (rest !== undefined && BY_POLICY.test(rest)) return { by: 'admission' };
  if (status === 413 || (status === 500 && TOO_LARGE.test(message))) return { by: 'size' };
  if (status === 422 && INVALID.test(message)) return { by: 'validation' };
  if (status !== 403 || rest === undefined) return undefined;
  if (BY_QUOTA.test(rest)) return { by: 'quota' };
  const [, verb, resource] = BY_PERMISSION.exec(rest) ?? [];
  return verb === undefined || resource === undefined ? undefined : { by: 'permission', verb, resource };
}
