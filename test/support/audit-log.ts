/** The audit log of a control plane that was started with the option `audit`. */
import { readFile } from 'node:fs/promises';

import type { ControlPlane } from '../servers/control-plane.ts';

export interface AuditEntry {
  readonly user: string;
  readonly verb: string;
  /** With its subresource: `syncsecrets/status`. Empty for other paths, such as discovery. */
  readonly resource: string;
  /** Empty for requests across namespaces. */
  readonly namespace: string;
  /** Empty for collections. */
  readonly name: string;
  /** Status of the answer. */
  readonly code: number;
  /** Path and query. */
  readonly uri: string;
}

interface Line {
  readonly auditID: string;
  readonly verb: string;
  readonly user?: { readonly username?: string };
  readonly objectRef?: {
    readonly resource?: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number };
  readonly requestURI: string;
}

/**
 * All requests of this user, in the order of their beginning; a watch counts once. The server writes a request down before it sends the
 * answer.
 */
export async function readAuditLog(plane: ControlPlane, user: string): Promise<AuditEntry[]> {
  const text = await readFile(plane.auditLogPath, 'utf8');
  const entries = new Map<string, AuditEntry>();
  // The last line may be incomplete.
  for (const line of text.slice(0, text.lastIndexOf('\n') + 1).split('\n')) {
    if (!line.includes(`"username":"${user}"`)) continue;
    const { auditID, verb, objectRef = {}, responseStatus, requestURI, ...parsed } = JSON.parse(line) as Line;
    if (parsed.user?.username !== user) continue;
    entries.set(auditID, {
      user,
      verb,
      resource: [objectRef.resource, objectRef.subresource].filter((part) => part !== undefined).join('/'),
      namespace: objectRef.namespace ?? '',
      name: objectRef.name ?? '',
      code: responseStatus?.code ?? 0,
      uri: requestURI,
    });
  }
  return [...entries.values()];
}
