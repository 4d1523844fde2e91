/**
 * Reads Vault's HTTP answers: each becomes a response or a failure with its kind. The patterns were tried with Vault
 * 1.13; the statuses are from https://developer.hashicorp.com/vault/api-docs#http-status-codes.
 */
import type { Answer } from '../../http/exchange.ts';
import { parseRetryAfter } from '../../runtime/text/retry-after.ts';
import type { VaultErrorKind } from '../errors.ts';
import {
  booleanMember,
  isJsonObject,
  JsonLimitError,
  type JsonObject,
  numberMember,
  objectMember,
  parseJson,
  stringMember,
  stringsMember,
} from '../json.ts';
import { redact, REDACTED } from '../../runtime/text/redact.ts';

/** The answer to a login or a token renewal, with the token. */
export interface TokenGrant {
  readonly clientToken: string;
  readonly accessor: string | undefined;
  /** The token's life, s; 0: it does not expire. */
  readonly ttlSeconds: number;
  readonly renewable: boolean;
  readonly batch: boolean;
  /** Whether the token ends after a number of calls (`num_uses`). */
  readonly limitedUses: boolean;
}

/** An answer of 200–299, or a 404 that carries data (a deleted version of KV 2). */
export interface VaultResponse {
  readonly status: number;
  /** May contain secret values. `undefined`: the answer has no data. */
  readonly data: JsonObject | undefined;
  /** Empty if the answer has no lease. */
  readonly leaseId: string;
  readonly leaseSeconds: number;
  readonly renewable: boolean;
  readonly auth: TokenGrant | undefined;
}

export interface Failure {
  readonly kind: VaultErrorKind;
  /** Vault's messages; they may quote secrets until `scrub` removes these. Empty if the body is not JSON of Vault. */
  readonly errors: readonly string[];
  readonly retryAfterMs: number | undefined;
}

/** KV 2's answer to a path without `data/`, as a warning of a 404 or an error of a 400. */
const VERSIONED_PATH = /^Invalid path for a versioned K\/V/;

/** Converts an answer to a response or a failure. @param nowMs wall clock, ms, for a Retry-After that is a date */
export function readAnswer(answer: Answer, nowMs: number): VaultResponse | Failure {
  const retryAfterMs = parseRetryAfter(answer.headers['retry-after'], nowMs);
  const body = parseBody(answer.body);
  if (body instanceof JsonLimitError)
    return { kind: 'tooLarge', errors: [`the answer: ${body.message}`], retryAfterMs };
  const ok = answer.status >= 200 && answer.status < 300;
  if (body === undefined) return { kind: kindOf(answer.status, []), errors: hintFrom(answer.body), retryAfterMs };
  const data = objectMember(body, 'data');
  if (ok || (answer.status === 404 && data !== undefined)) return responseFrom(answer.status, body, data);
  const errors = [...stringsMember(body, 'errors'), ...stringsMember(body, 'warnings')].map((text) => text.trim());
  return { kind: kindOf(answer.status, errors), errors: errors.filter((text) => text !== ''), retryAfterMs };
}

function responseFrom(status: number, body: JsonObject, data: JsonObject | undefined): VaultResponse {
  return {
    status,
    data,
    leaseId: stringMember(body, 'lease_id') ?? '',
    leaseSeconds: numberMember(body, 'lease_duration') ?? 0,
    renewable: booleanMember(body, 'renewable') ?? false,
    auth: authFrom(objectMember(body, 'auth')),
  };
}

function authFrom(auth: JsonObject | undefined): TokenGrant | undefined {
  if (auth === undefined) return undefined;
  return {
    clientToken: stringMember(auth, 'client_token') ?? '',
    accessor: stringMember(auth, 'accessor') || undefined,
    ttlSeconds: numberMember(auth, 'lease_duration') ?? 0,
    renewable: booleanMember(auth, 'renewable') ?? false,
    batch: stringMember(auth, 'token_type') === 'batch',
    limitedUses: (numberMember(auth, 'num_uses') ?? 0) > 0,
  };
}

/** `undefined`: the body is not a JSON object. An absent body (204) is read as an empty object. */
function parseBody(bytes: Buffer): JsonObject | JsonLimitError | undefined {
  if (bytes.byteLength === 0) return {};
  try {
    const value = parseJson(bytes.toString('utf8'));
    return isJsonObject(value) ? value : undefined;
  } catch (error) {
    if (error instanceof JsonLimitError) return error;
    // The error is dropped, because it quotes the body. The body may contain a secret value.
    return undefined;
  }
}

/** The only text that is quoted from a body that is not JSON: Go's answer to plain HTTP on a TLS port. */
function hintFrom(body: Buffer): readonly string[] {
  const known = 'Client sent an HTTP request to an HTTPS server.';
  return body.subarray(0, 200).toString('latin1').includes(known) ? [known] : [];
}

function kindOf(status: number, errors: readonly string[]): VaultErrorKind {
  const matches = (pattern: RegExp): boolean => errors.some((text) => pattern.test(text));
  switch (status) {
    case 400:
    case 405:
      if (matches(/check-and-set parameter/)) return 'casMismatch';
      if (matches(/^(?:lease not found|invalid lease|lease (?:is not renewable|expired))/)) return 'leaseGone';
      // Vault answers this for some seconds after a KV mount was created or upgraded to version 2.
      if (matches(/^Upgrading from non-versioned/)) return 'unavailable';
      if (matches(VERSIONED_PATH) || matches(/unsupported (?:path|operation)/)) return 'invalidPath';
      return 'badRequest';
    case 403:
      return 'permissionDenied';
    case 404:
      return matches(/no handler for route|unsupported path/) || matches(VERSIONED_PATH) ? 'invalidPath' : 'notFound';
    case 413:
      return 'tooLarge';
    // A replica does not have Keyferry's last write yet (412), a quota, or a standby that does not forward calls.
    case 412:
    case 429:
    case 472:
    case 473:
      return 'unavailable';
    default:
      if (status >= 300 && status < 400) return 'redirect';
      if (status >= 500) return 'unavailable';
      return status >= 400 ? 'badRequest' : 'badResponse';
  }
}

/** Whether Vault's error means that the path lacks the `data/` of a KV 2 mount. */
export function isVersionedPathWarning(errors: readonly string[]): boolean {
  return errors.some((text) => VERSIONED_PATH.test(text));
}

/** Longest text of one error, in UTF-16 units. Kubernetes allows 1,024 bytes for the message of an event. */
const MAX_LENGTH = 300;
const MAX_ERRORS = 5;

/** Tokens of Vault and OpenBao (service, batch, recovery), in the old style (`s.…`) and the new one (`hvs.…`). */
const TOKEN = /\b(?:hv[sbr]|[sbr])\.[A-Za-z0-9_-]{20,}/g;

/** Prepares Vault's messages for logs: at most five short lines, without tokens or `secrets`. */
export function scrub(texts: readonly string[], secrets: readonly string[]): readonly string[] {
  return texts.slice(0, MAX_ERRORS).map((text) => oneLine(redact(text, secrets).replace(TOKEN, REDACTED)));
}

function oneLine(text: string): string {
  // oxlint-disable-next-line no-control-regex
  const line = text.replace(/[\u0000-\u001F\u007F-\u009F\u2028\u2029\s]+/g, ' ').trim();
  return line.length <= MAX_LENGTH ? line : `${line.slice(0, MAX_LENGTH).toWellFormed()}…`;
}

/** Node's error codes of failed connections, each with its meaning in plain words. */
const PLAIN_PROBLEMS: ReadonlyMap<string, string> = new Map([
  ['ENOTFOUND', 'the host name does not resolve'],
  ['EAI_AGAIN', 'the host name cannot be resolved now, because DNS does not answer'],
  ['ECONNREFUSED', 'the server refuses the connection'],
  ['EHOSTUNREACH', 'there is no route to the server'],
  ['ETIMEDOUT', 'the server does not accept the connection in time'],
]);
/** Node's error codes for a failed check of a certificate or a failed TLS handshake. */
const TLS_CODES =
  /^(?:ERR_(?:SSL|TLS)_|CERT_|UNABLE_TO_|DEPTH_ZERO_SELF_SIGNED_CERT$|SELF_SIGNED_CERT|EPROTO$|HOSTNAME_MISMATCH$|INVALID_CA$|CRL_)/;

/** Kind and reason of the error for a call that got no answer. Both are derived from Node's error. */
export function connectionFailure({ code, message }: NodeJS.ErrnoException): {
  readonly kind: VaultErrorKind;
  readonly reason: string;
} {
  const kind = code !== undefined && TLS_CODES.test(code) ? 'tls' : 'connection';
  const original = scrub([message || (code ?? 'no connection')], [])[0] ?? '';
  const plain = PLAIN_PROBLEMS.get(code ?? '');
  return { kind, reason: plain === undefined ? original : `${plain} (${original})` };
}

const MESSAGES: Readonly<Record<number, string>> = {
  404: 'not found',
  429: 'too many calls',
  472: 'the server is a standby',
  473: 'the server is a standby',
};

/** The message for an answer that has no message of Vault. */
export function describe(kind: VaultErrorKind, status: number): string {
  if (kind === 'badResponse') return 'the response is not JSON; check that addr is the address of Vault';
  return MESSAGES[status] ?? (status >= 500 ? 'the server failed' : 'refused');
}
