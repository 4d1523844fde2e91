/**
 * Removes secret values from the message of a refused write. Admission webhooks and policies receive the whole object
 * as it is before and after the write, so their message may quote a value.
 */
import { type ApiError, reasonOfStatus } from '../../../kube/errors.ts';
import { redact } from '../../../runtime/text/redact.ts';
import { NotUtf8Error, type SecretBytes } from '../../../runtime/secret-bytes.ts';
import type { Content } from '../../model/content.ts';
import type { Kind } from '../../model/kind.ts';

/** The error without the values of `contents`: the object's content before the write, and after it. */
export function redactApiError(error: ApiError, kind: Kind, contents: readonly Content[]): ApiError {
  const values = contents.flatMap((content) => [...content.values(kind).values()].map(textOf));
  return reworded(error, (text) => redact(text, values));
}

/** The error without its message: for a message that may quote a value that Keyferry does not know. */
export function withoutDetails(error: ApiError): ApiError {
  return reworded(error, () => '[removed: it may quote a value]');
}

function reworded(error: ApiError, reword: (text: string) => string): ApiError {
  const { status, reason, statusMessage, causes } = error;
  return error.reworded({
    // The usual reason of a status (404: NotFound) does not depend on values. So it stays, even if a value equals it.
    reason: reason === reasonOfStatus(status) || reword(reason) === reason ? reason : 'Unknown',
    message: reword(statusMessage),
    causes: causes.map(({ reason: why, field, message }) => {
      return { reason: why, field: field && reword(field), message: message && reword(message) };
    }),
  });
}

function textOf(value: SecretBytes): string {
  try {
    return value.utf8();
  } catch (error) {
    if (!(error instanceof NotUtf8Error)) throw error;
    return value.base64();
  }
}
