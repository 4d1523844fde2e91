/** What programs request, as the audit logs of the API servers have it. */
import assert from 'node:assert/strict';

import type { ControlPlane } from '../../servers/control-plane.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import type { AuditEntry } from '../../support/audit-log.ts';
import { staysTrue, waitForStable } from '../../support/wait-for.ts';

/** Longer than the delays of status writes and of targets that are decided again. */
const QUIET_MS = 2000;
const READS = new Set(['get', 'list', 'watch']);

export const lineOf = ({ verb, resource, namespace, name }: AuditEntry): string =>
  `${verb} ${resource} ${namespace}/${name}`;
export const isWrite = ({ verb, resource }: AuditEntry): boolean => !READS.has(verb) && resource !== 'events';
/** A write, or a read of one object. The identity of the cluster is read at each start. */
const isWork = (entry: AuditEntry): boolean =>
  isWrite(entry) || (entry.verb === 'get' && !['', 'namespaces'].includes(entry.resource));

export class Requests {
  readonly #users: readonly (readonly [ControlPlane, user: string])[];
  /** For messages. */
  readonly #details: () => string;

  /** @param users of the programs, each in one cluster */
  constructor(users: readonly (readonly [ControlPlane, user: string])[], details: () => string) {
    this.#users = users;
    this.#details = details;
  }

  #all(): readonly AuditEntry[][] {
    return this.#users.map(([plane, user]) => readAuditLog(plane, user));
  }

  /** Remembers what was requested so far. @returns the later requests */
  fromNow(): () => AuditEntry[] {
    const counts = this.#all().map(({ length }) => length);
    return () => this.#all().flatMap((entries, index) => entries.slice(counts[index]));
  }

  /** Waits until the programs send nothing more. */
  async settled(): Promise<void> {
    const later = this.fromNow();
    await waitForStable(() => String(later().length), QUIET_MS, 'the programs to have no more requests');
  }

  /** Checks that the programs neither write, nor read an object, during `action` and some time after it. */
  async assertNone(action: () => Promise<unknown>): Promise<void> {
    const later = this.fromNow();
    await action();
    let work: string[] = [];
    const isIdle = (): boolean => {
      work = later().filter(isWork).map(lineOf);
      return work.length === 0;
    };
    try {
      await staysTrue(isIdle, QUIET_MS, 'the programs send nothing');
    } catch (error) {
      assert.deepEqual(work, [], `${String(error)}\n${this.#details()}`);
      throw error;
    }
  }
}
