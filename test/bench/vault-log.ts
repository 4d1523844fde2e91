/**
 * Reads the calls of one identity from Vault's audit log, each with the time of its answer. The log contains paths as
 * they are, but values only as HMACs.
 */
import { GrownLines } from '../support/grown-lines.ts';

export interface VaultCall {
  /** When Vault answered: wall clock, ms. */
  readonly at: number;
  readonly operation: string;
  /** The path of the call: `secret/data/app`. */
  readonly path: string;
}

interface AuditLine {
  readonly type: string;
  readonly time: string;
  readonly auth?: { readonly policies?: readonly string[] };
  readonly request: { readonly operation: string; readonly path: string };
}

const LOGIN = /^auth\/[^/]+\/login$/u;
const ENTRY = '/data/';

export class VaultLog {
  readonly #lines: GrownLines;
  readonly #policy: string;
  #calls: VaultCall[] = [];

  /** @param policy - only logins, and calls with a token that has this policy, are counted */
  constructor(file: string, policy: string) {
    this.#lines = new GrownLines(file);
    this.#policy = policy;
  }

  /** Sets all counts to zero. */
  reset(): void {
    this.#read();
    this.#calls = [];
  }

  get logins(): number {
    return this.#matching(({ path }) => LOGIN.test(path)).length;
  }

  /** The calls that read entries in KV version 2. */
  get reads(): readonly VaultCall[] {
    return this.#matching(({ operation, path }) => operation === 'read' && path.includes(ENTRY));
  }

  /** All calls except reads, logins and calls about tokens. */
  get writes(): readonly VaultCall[] {
    return this.#matching(({ operation, path }) => operation !== 'read' && !path.startsWith('auth/'));
  }

  /** The number of all calls. */
  get count(): number {
    return this.#matching(() => true).length;
  }

  /** All calls as text: `count operation mount/kind`. The most frequent calls are first. */
  describe(): string {
    const counts = new Map<string, number>();
    for (const { operation, path } of this.#matching(() => true)) {
      const key = `${operation} ${path.startsWith('secret/') ? path.split('/', 2).join('/') : path.replace(/\/secret\/.*/u, '')}`;
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    return [...counts]
      .toSorted(([, a], [, b]) => b - a)
      .map(([key, count]) => `${count} ${key}`)
      .join(', ');
  }

  #matching(wanted: (call: VaultCall) => boolean): VaultCall[] {
    this.#read();
    return this.#calls.filter(wanted);
  }

  #read(): void {
    for (const line of this.#lines.read()) this.#take(line);
  }

  #take(line: string): void {
    const { type, time, auth, request } = JSON.parse(line) as AuditLine;
    if (type !== 'response') return;
    const { operation, path } = request;
    const isCounted = auth?.policies?.includes(this.#policy) === true || LOGIN.test(path);
    if (isCounted) this.#calls.push({ at: Date.parse(time), operation, path });
  }
}

/** The largest number of calls for a single path in any period of `windowMs`. */
export function mostOfOnePath(calls: readonly VaultCall[], windowMs: number): number {
  let most = 0;
  for (const ofPath of Map.groupBy(calls, ({ path }) => path).values()) {
    const times = ofPath.map(({ at }) => at).toSorted((a, b) => a - b);
    for (const [index, from] of times.entries()) {
      most = Math.max(most, times.slice(index).filter((at) => at - from < windowMs).length);
    }
  }
  return most;
}
