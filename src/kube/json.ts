/** A server's answer is not JSON. Without a piece of the answer, which may be a secret. */
export class MalformedJsonError extends Error {
  override readonly name = 'MalformedJsonError';
}

/**
 * Parses one JSON document.
 * @param what names the document in the error: `the answer to GET /api/v1/secrets`
 * @throws MalformedJsonError
 */
export function parseJson(bytes: Buffer, what: string): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    // Without the parser's error as cause: its message quotes the text.
    throw new MalformedJsonError(`${what} is not JSON (${bytes.length} bytes)`);
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
