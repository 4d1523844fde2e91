/** The audit log of a control plane that was started with the option `audit`. */
import type { ControlPlane } from '../servers/control-plane.ts';
import { GrownLines } from './grown-lines.ts';

export interface AuditEntry {
  readonly user: string;
  readonly verb: string;
  /** The resource, with its subresource: `syncsecrets/status`. Empty for other paths, such as discovery. */
  readonly resource: string;
  /** The namespace; empty for a request across namespaces. */
  readonly namespace: string;
  /** The name of the object; empty for a collection. */
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
    // Most lines are of other users. Searching the text is cheaper than parsing them all.
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
 * What was read of each log. A test that waits reads a log of megabytes many times, so each read begins where the last
 * one ended.
 */
const requestsOf = new WeakMap<ControlPlane, Map<string, UserRequests>>();

/**
 * All requests of a user, in the order in which they began; a watch counts once. The server writes a request into the
 * log before it sends the answer.
 */
export function readAuditLog(plane: ControlPlane, user: string): AuditEntry[] {
  const users = requestsOf.get(plane) ?? new Map<string, UserRequests>();
  requestsOf.set(plane, users);
  const requests = users.get(user) ?? new UserRequests(plane, user);
  users.set(user, requests);
  return requests.read();
}
