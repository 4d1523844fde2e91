/** Makes lists, and lines of a watch, as an API server sends them. */
import type { KubeObject } from '../../src/kube/api.ts';

/** An object for a list or a line of a watch. Its namespace is `n` by default. */
export function object(name: string, resourceVersion: number, namespace = 'n'): KubeObject {
  return {
    metadata: {
      namespace,
      name,
      uid: `uid-${name}`,
      resourceVersion: String(resourceVersion),
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
  };
}

export const line = (type: string, body: unknown): string => `${JSON.stringify({ type, object: body })}\n`;
export const added = (name: string, version: number, namespace?: string): string =>
  line('ADDED', object(name, version, namespace));
export const bookmark = (version: number): string => line('BOOKMARK', object('', version));
/** @param next the token of the next page; `''`: this is the last one */
export const list = (version: number, items: readonly KubeObject[] = [], next = ''): string =>
  JSON.stringify({ metadata: { resourceVersion: String(version), continue: next }, items });
export const status = (code: number, reason: string, message = 'no', retryAfterSeconds?: number): unknown => ({
  kind: 'Status',
  code,
  reason,
  message,
  ...(retryAfterSeconds === undefined ? {} : { details: { retryAfterSeconds } }),
});
