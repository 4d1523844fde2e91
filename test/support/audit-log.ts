/** Reads the audit log of a control plane that was started with the option `audit`. */
import type { ControlPlane } from '../servers/control-plane.ts';
import { GrownLines } from './grown-lines.ts';

export interface AuditEntry {
  readonly user: string;
  readonly verb: string;
  /** Resource and subresource: `syncsecrets/status`. '' for paths without a resource, such as discovery. */
  readonly resource: string;
  /** The namespace; '' for a request to all namespaces. */
  readonly namespace: string;
  /** The object's name; '' for a request to a collection. */
  readonly name: string;
  /** The status of the answer. */
  readonly code: number;
  /** The path with its query. */
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

/** The requests of one user that were found in the log until now, by the id of the request. */
class UserRequests {
  readonly #user: string;
  readonly #lines: GrownLines;
  readonly #entries = new Map<string, AuditEntry>();

  constructor(plane: ControlPlane, user: string) {
    this.#user = user;
    this.#lines = new GrownLines(plane.auditLogPath);
  }

  read(): AuditEntry[] {
    for (const line of this.#lines.read()) this.#take(line);
    return [...this.#entries.values()];
  }

  #take(line: string): void {
    // Most lines belong to other users. Searching a line for the name is faster than parsing it.
    if (!line.includes(`"username":"${this.#user}"`)) return;
    const { auditID, verb, objectRef = {}, responseStatus, requestURI, ...parsed } = JSON.parse(line) as Line;
    if (parsed.user?.username !== this.#user) return;
    this.#entries.set(auditID, {
      user: this.#user,
      verb,
      resource: [objectRef.resource, objectRef.subresource].filter((part) => part !== undefined).join('/'),
      namespace: objectRef.namespace ?? '',
      name: objectRef.name ?? '',
      code: responseStatus?.code ?? 0,
      uri: requestURI,
    });
  }
}

/**
 * The requests that were already read from each log. A test that waits reads a log of several MB many times. So each
 * read begins where the previous one ended.
 */
const requestsOf = new WeakMap<ControlPlane, Map<string, UserRequests>>();

/**
 * All requests of a user, in the order of their beginnings. A watch is one request. The API server writes a request
 * into the log before it sends the answer, so a request with an answer is in the log.
 */
export function readAuditLog(plane: ControlPlane, user: string): AuditEntry[] {
  const users = requestsOf.get(plane) ?? new Map<string, UserRequests>();
  requestsOf.set(plane, users);
  const requests = users.get(user) ?? new UserRequests(plane, user);
  users.set(user, requests);
  return requests.read();
}
