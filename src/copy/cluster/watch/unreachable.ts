/**
 * Why another cluster cannot be used, for the status of rules. Pure.
 *
 * The texts name the cluster and no address, which is nothing for the users of a cluster. They do not change while an outage lasts, because each
 * change would be written to the status of every rule concerned. The log has the details.
 */
import {
  ApiError,
  ConnectionError,
  isForbidden,
  isGatewayError,
  isGone,
  isNotFound,
  isUnauthorized,
} from '../../../kube/errors.ts';
import type { BackendWatch } from '../../engine/backend.ts';
import { type Cause, operatorCause } from '../../model/cause.ts';
import type { Waiting } from '../../model/claim.ts';

/** A watch may be without a connection for this long, ms: the server ends it regularly. */
const DISCONNECTED_LIMIT_MS = 3000;

/** Codes of our own errors, which do not mean that the server cannot be reached. */
const OWN_CODES: ReadonlySet<string> = new Set([
  'ECLOSED',
  'EMSGSIZE',
  'EFENCED',
  'EROLLBACK',
  'ERR_UNESCAPED_CHARACTERS',
]);

const TLS_CODE = /CERT|SIGNATURE|^ERR_(?:SSL|TLS)/;

/** Why a cluster with these watches cannot be used; `undefined`: it can, as far as they show. */
export function causeOfWatches(cluster: string, watches: readonly BackendWatch[]): Cause | undefined {
  for (const { name, connected, synced, silentMs, cause, isExcused } of watches) {
    if (connected || cause === undefined || isExcused === true) continue;
    // After a 410 the list is read again.
    if (isGone(cause) || (synced && silentMs <= DISCONNECTED_LIMIT_MS)) continue;
    const [plural = name] = name.split('/', 1);
    return causeOfWatchError(cluster, plural, cause);
  }
  return undefined;
}

function causeOfWatchError(cluster: string, plural: string, error: unknown): Cause {
  if (isUnauthorized(error)) return unauthorized(cluster);
  if (isForbidden(error)) {
    return operatorCause('Forbidden', `no permission to watch ${plural} in the ${cluster} cluster`);
  }
  if (isNotFound(error)) {
    return operatorCause('NotInstalled', `the API of ${plural} is not installed in the ${cluster} cluster`);
  }
  return noConnection(cluster, error);
}

/** The outcome of a target after an error that ends without a change of the target. `undefined` for other errors. */
export function remoteWait(cluster: string, error: unknown): Waiting | undefined {
  if (isUnanswered(error)) return { state: 'waiting', for: 'target', ...noConnection(cluster, error) };
  if (isUnauthorized(error)) return { state: 'waiting', for: 'target', ...unauthorized(cluster) };
  if (!isNotFound(error) || !/^namespaces "[^"]*" not found/.test(error.statusMessage)) return undefined;
  const message = `the ${cluster} cluster: ${error.statusMessage}`;
  const publicMessage = `the namespace in the ${cluster} cluster does not exist`;
  return { state: 'waiting', for: 'namespace', ...operatorCause('NamespaceNotFound', message, publicMessage) };
}

/** The cluster did not answer, or a proxy in front of it did. */
export function isUnanswered(error: unknown): boolean {
  if (error instanceof ConnectionError) return !OWN_CODES.has(error.code);
  return error instanceof ApiError && isGatewayError(error);
}

function unauthorized(cluster: string): Cause {
  return operatorCause('Unauthorized', `the ${cluster} cluster does not accept the credentials`);
}

function noConnection(cluster: string, error: unknown): Cause {
  const code = error instanceof ConnectionError ? error.code : '';
  const problem =
    code === 'ECREDENTIALS'
      ? `there are no credentials for the ${cluster} cluster`
      : TLS_CODE.test(code)
        ? `no TLS connection to the ${cluster} cluster: check the certificates`
        : `the ${cluster} cluster does not answer`;
  return operatorCause('ClusterUnreachable', problem);
}
