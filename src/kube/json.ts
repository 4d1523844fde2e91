/**
 * Parses one JSON document.
 * @param what names the document in the error: `the answer to GET /api/v1/secrets`
 * @throws Error that quotes nothing of the document, which may be a secret
 */
export function parseJson(bytes: Buffer, what: string): unknown {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    // The error of `JSON.parse` is dropped, also as a cause: its message quotes the text.
    throw new Error(`${what} is not JSON (${bytes.length} bytes)`);
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
