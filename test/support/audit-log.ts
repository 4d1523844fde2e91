/** The audit log of a control plane that was started with the option `audit`. */
import type { ControlPlane } from '../servers/control-plane.ts';
import { GrownLines } from './grown-lines.ts';

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

/** The requests of one user that were read so far, by their ids. */
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
    // Most lines belong to other users. This test is cheaper than parsing them.
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

/** A test that waits reads the log many times, and the log has megabytes: each read goes on where the last one ended. */
const requestsOf = new WeakMap<ControlPlane, Map<string, UserRequests>>();

/**
 * All requests of this user, in the order of their beginning; a watch counts once. The server writes a request down before it sends the
 * answer.
 */
export function readAuditLog(plane: ControlPlane, user: string): AuditEntry[] {
  const users = requestsOf.get(plane) ?? new Map<string, UserRequests>();
  requestsOf.set(plane, users);
  const requests = users.get(user) ?? new UserRequests(plane, user);
  users.set(user, requests);
  return requests.read();
}
