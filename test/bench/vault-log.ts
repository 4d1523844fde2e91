/**
 * What one identity asked of Vault, from the audit log: each call when it was answered. Paths stand there as they are, values only
 * as HMACs.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

export interface VaultCall {
  /** Wall clock, ms. */
  readonly at: number;
  readonly operation: string;
  /** `secret/data/app` */
  readonly path: string;
}

interface AuditLine {
  readonly type: string;
  readonly time: string;
  readonly auth?: { readonly policies?: readonly string[] };
  readonly request: { readonly operation: string; readonly path: string };
}

const LOGIN = /^auth\/[^/]+\/login$/u;
const VALUE = '/data/';
const METADATA = '/metadata/';

export class VaultLog {
  readonly #file: string;
  readonly #policy: string;
  #offset = 0;
  #rest = '';
  #calls: VaultCall[] = [];

  /** @param policy of the identity whose calls count; all logins do */
  constructor(file: string, policy: string) {
    this.#file = file;
    this.#policy = policy;
  }

  /** Counts from here on. */
  reset(): void {
    this.#read();
    this.#calls = [];
  }

  get logins(): number {
    return this.#matching(({ path }) => LOGIN.test(path)).length;
  }

  /** Of values of KV version 2. */
  get valueReads(): readonly VaultCall[] {
    return this.#matching(({ operation, path }) => operation === 'read' && path.includes(VALUE));
  }

  get metadataReads(): readonly VaultCall[] {
    return this.#matching(({ operation, path }) => operation === 'read' && path.includes(METADATA));
  }

  /** Of anything but logins and tokens. */
  get writes(): readonly VaultCall[] {
    return this.#matching(({ operation, path }) => operation !== 'read' && !path.startsWith('auth/'));
  }

  /** All calls as `count operation mount/kind`, most first. */
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
    const descriptor = openSync(this.#file, 'r');
    try {
      const { size } = fstatSync(descriptor);
      const chunk = Buffer.alloc(1024 * 1024);
      while (this.#offset < size) {
        const count = readSync(descriptor, chunk, 0, chunk.length, this.#offset);
        this.#offset += count;
        const lines = (this.#rest + chunk.toString('latin1', 0, count)).split('\n');
        this.#rest = lines.pop() ?? '';
        for (const line of lines) this.#take(line);
      }
    } finally {
      closeSync(descriptor);
    }
  }

  #take(line: string): void {
    const { type, time, auth, request } = JSON.parse(line) as AuditLine;
    if (type !== 'response') return;
    const { operation, path } = request;
    const ours = auth?.policies?.includes(this.#policy) === true || LOGIN.test(path);
    if (ours) this.#calls.push({ at: Date.parse(time), operation, path });
  }
}

/** The most calls that one path had; within any `windowMs` if given. */
export function mostOfOnePath(calls: readonly VaultCall[], windowMs = Number.POSITIVE_INFINITY): number {
  let most = 0;
  for (const ofPath of Map.groupBy(calls, ({ path }) => path).values()) {
    const times = ofPath.map(({ at }) => at).toSorted((a, b) => a - b);
    for (const [index, from] of times.entries()) {
      most = Math.max(most, times.slice(index).filter((at) => at - from < windowMs).length);
    }
  }
  return most;
}
