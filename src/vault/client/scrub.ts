/**
 * Makes a server's text safe for logs, events and statuses: one line, bounded, without anything that was sent to the server.
 * Vault quotes fields of a request in some errors (`error converting input "…" for field`), and the server may not be Vault.
 */
import { redact, REDACTED } from '../../runtime/text/redact.ts';

/** Longest text of one error, in UTF-16 units. An event's message may have 1,024 bytes. */
const MAX_LENGTH = 300;
const MAX_ERRORS = 5;

/** Vault's and OpenBao's tokens: service, batch and recovery ones, in the old and the new style. */
const TOKEN = /\b(?:hv[sbr]|[sbr])\.[A-Za-z0-9_-]{20,}/g;

/** @param secrets everything confidential in the request: token, credentials, values */
export function scrub(texts: readonly string[], secrets: readonly string[]): readonly string[] {
  return texts.slice(0, MAX_ERRORS).map((text) => oneLine(redact(text, secrets).replace(TOKEN, REDACTED)));
}

function oneLine(text: string): string {
  // oxlint-disable-next-line no-control-regex
  const line = text.replace(/[\u0000-\u001F\u007F-\u009F\u2028\u2029\s]+/g, ' ').trim();
  return line.length <= MAX_LENGTH ? line : `${line.slice(0, MAX_LENGTH).toWellFormed()}…`;
}
