/** Reads the requests of the programs from the audit logs of the API servers. */
import assert from 'node:assert/strict';

import type { ControlPlane } from '../../servers/control-plane.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import type { AuditEntry } from '../../support/audit-log.ts';
import { staysTrue, waitForStable } from '../../support/wait-for.ts';

/** A wait, ms, that is longer than the pauses before a status is written and before a target is checked again. */
const QUIET_MS = 2000;
const READS = new Set(['get', 'list', 'watch']);

export const lineOf = ({ verb, resource, namespace, name }: AuditEntry): string =>
  `${verb} ${resource} ${namespace}/${name}`;
export const isWrite = ({ verb, resource }: AuditEntry): boolean => !READS.has(verb) && resource !== 'events';
/**
 * Whether a request is a write or a read of one object. Reads of Namespaces do not count, because each start reads the
 * cluster's identity.
 */
const isWork = (entry: AuditEntry): boolean =>
  isWrite(entry) || (entry.verb === 'get' && !['', 'namespaces'].includes(entry.resource));

export class Requests {
  readonly #users: readonly (readonly [ControlPlane, user: string])[];
  /** Text for the messages of failed tests. */
  readonly #details: () => string;

  /** @param users - the programs' users, each with the cluster that it is a user of */
  constructor(users: readonly (readonly [ControlPlane, user: string])[], details: () => string) {
    this.#users = users;
    this.#details = details;
  }

  #all(): readonly AuditEntry[][] {
    return this.#users.map(([plane, user]) => readAuditLog(plane, user));
  }

  /** Remembers the requests so far. @returns a function that returns the requests since then */
  fromNow(): () => AuditEntry[] {
    const counts = this.#all().map(({ length }) => length);
    return () => this.#all().flatMap((entries, index) => entries.slice(counts[index]));
  }

  /** Waits until the programs send no more requests. */
  async settled(): Promise<void> {
    const later = this.fromNow();
    await waitForStable(() => String(later().length), QUIET_MS, 'the programs to have no more requests');
  }

  /** Checks that during `action`, and for QUIET_MS after it, the programs write nothing and read no single object. */
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
