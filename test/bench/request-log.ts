/** Counts the requests of one user to the API server. Reads them from the audit log. */
import { GrownLines } from '../support/grown-lines.ts';

/** How many requests were sent, by `verb resource[/subresource]`. */
export type RequestCounts = ReadonlyMap<string, number>;

const WRITES = new Set(['create', 'update', 'patch', 'delete', 'deletecollection']);
/** Requests for Leases are not counted as writes or calls: leader election repeats them all the time. */
const LEASES = 'leases';

interface AuditEvent {
  readonly stage: string;
  readonly verb: string;
  readonly user?: { readonly username?: string };
  readonly objectRef?: {
    readonly resource?: string;
    readonly subresource?: string;
  };
  readonly requestURI: string;
}

export class RequestLog {
  readonly #lines: GrownLines;
  readonly #user: string;
  #counts = new Map<string, number>();
  #lastCallAt = 0;

  /** @param user - only requests of this user are counted */
  constructor(file: string, user: string) {
    this.#lines = new GrownLines(file);
    this.#user = user;
  }

  /** Sets all counts to zero. */
  reset(): void {
    this.#read();
    this.#counts = new Map();
  }

  counts(): RequestCounts {
    this.#read();
    return this.#counts;
  }

  /** When the last request was sent that is not a watch, as `performance.now()`, ms. */
  lastCallAt(): number {
    this.#read();
    return this.#lastCallAt;
  }

  #read(): void {
    for (const line of this.#lines.read()) this.#take(line);
  }

  #take(line: string): void {
    // Most lines belong to other users. Searching a line for the name is faster than parsing it.
    if (!line.includes(`"username":"${this.#user}"`)) return;
    const { stage, verb, user, objectRef, requestURI } = JSON.parse(line) as AuditEvent;
    if (user?.username !== this.#user) return;
    // A watch is counted when it begins, because it may never end.
    if (stage !== (verb === 'watch' ? 'ResponseStarted' : 'ResponseComplete')) return;
    const { resource, subresource } = objectRef ?? {};
    const what =
      resource === undefined ? (requestURI.split('?')[0] ?? '') : [resource, subresource].filter(Boolean).join('/');
    const key = `${verb} ${what}`;
    this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1);
    if (verb !== 'watch' && resource !== LEASES) this.#lastCallAt = performance.now();
  }
}

/** The number of requests that change something, except requests for Leases. */
export function writesIn(counts: RequestCounts): number {
  return sum(counts, (verb, what) => WRITES.has(verb) && what !== LEASES);
}

/** The number of requests except watches and requests for Leases. */
export function callsIn(counts: RequestCounts): number {
  return sum(counts, (verb, what) => verb !== 'watch' && what !== LEASES);
}

function sum(counts: RequestCounts, counted: (verb: string, what: string) => boolean): number {
  let total = 0;
  for (const [key, count] of counts) {
    const [verb = '', what = ''] = key.split(' ');
    if (counted(verb, what)) total += count;
  }
  return total;
}
