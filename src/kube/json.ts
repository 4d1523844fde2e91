/** Reads what a server says is JSON. */

/** A server said something that is not JSON. Never with a piece of it: JSON.parse would quote it, and it may be a secret. */
export class MalformedJsonError extends Error {
  override readonly name = 'MalformedJsonError';
}

/**
 * Parses one JSON document.
 * @param what names the document in the error: `the answer to GET /api/v1/secrets`
 * @throws MalformedJsonError without the parser's own words
 */
export function parseJson(bytes: Buffer, what: string): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    // The parser's error is not kept as a cause either: its message quotes the text.
    throw new MalformedJsonError(`${what} is not JSON (${bytes.length} bytes)`);
  }
}
