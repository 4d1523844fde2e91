/**
 * Removes values from the message of a refused write. Admission webhooks and policies receive the whole object, before
 * and after the write, and may quote a value of it.
 */
import { type ApiError, reasonOfStatus } from '../../../kube/errors.ts';
import { redact } from '../../../runtime/text/redact.ts';
import { NotUtf8Error, type SecretBytes } from '../../../runtime/secret-bytes.ts';
import type { Content } from '../../model/content.ts';
import type { Kind } from '../../model/kind.ts';

/** @param contents those of the object before and after the write */
export function redactApiError(error: ApiError, kind: Kind, contents: readonly Content[]): ApiError {
  const values = contents.flatMap((content) => [...content.values(kind).values()].map(textOf));
  return reworded(error, (text) => redact(text, values));
}

/** Removes the whole message, because it may quote a value that is not known. */
export function withoutDetails(error: ApiError): ApiError {
  return reworded(error, () => '[removed: it may quote a value]');
}

function reworded(error: ApiError, reword: (text: string) => string): ApiError {
  const { status, reason, statusMessage, causes } = error;
  return error.reworded({
    // The usual reason of a status is the same for all values, so it reveals none.
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
