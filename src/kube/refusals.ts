/** Who refused a request, by the words of the API server. Nothing else tells these refusals apart. */

/**
 * - `permission`: RBAC, by what is missing. - `quota`: a ResourceQuota. - `admission`: a webhook or policy.
 * - `validation`: the object is not valid. - `size`: it is too large for the server or for etcd.
 */
export type ApiRefusal =
  | { readonly by: 'permission'; readonly verb: string; readonly resource: string }
  | { readonly by: 'quota' | 'admission' | 'validation' | 'size' };

// The beginning of the message says who refused a request. Each expression is anchored, and a name before the words that count is quoted by the server
// (Go's %q), so that it ends at the first quote without a backslash. So no name, webhook or policy can bring such a beginning about. Where the server
// makes them, in staging/src/k8s.io of Kubernetes:
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
/** Of etcd and its client; the whole message, or its beginning before a number. */
const TOO_LARGE =
  /^(?:etcdserver: request is too large$|rpc error: code = ResourceExhausted desc = trying to send message larger than max)/u;

/** @param message of the `Status`, before anything is removed from it @returns `undefined`: the message does not say it */
export function refusalIn(status: number, message: string): ApiRefusal | undefined {
  if (BY_WEBHOOK.test(message)) return { by: 'admission' };
  const rest = FORBIDDEN.test(message) ? message.replace(FORBIDDEN, '') : undefined;
  // A policy chooses the status, and etcd's errors have none of their own.
  if (rest !== undefined && BY_POLICY.test(rest)) return { by: 'admission' };
  if (status === 413 || (status === 500 && TOO_LARGE.test(message))) return { by: 'size' };
  if (status === 422 && INVALID.test(message)) return { by: 'validation' };
  if (status !== 403 || rest === undefined) return undefined;
  if (BY_QUOTA.test(rest)) return { by: 'quota' };
  const [, verb, resource] = BY_PERMISSION.exec(rest) ?? [];
  return verb === undefined || resource === undefined ? undefined : { by: 'permission', verb, resource };
}
