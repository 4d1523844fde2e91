/**
 * Removes each permission of a program, one after the other. Without it, something is not done and the log names the
 * permission. The program neither ends nor repeats the call without pauses. With the permission back, it does the work.
 */
import assert from 'node:assert/strict';

import type { ControlPlane } from '../servers/control-plane.ts';
import type { FaultRule } from '../servers/fault-rules.ts';
import { readAuditLog } from './audit-log.ts';
import type { AuditEntry } from './audit-log.ts';
import { GRANTED, type RoleFile } from './granted.ts';
import type { Keyferry } from './keyferry.ts';
import { callsOf } from './permissions.ts';
import { type BoundRole, removePermission } from './removed-permission.ts';
import { waitFor } from './wait-for.ts';

/** The most refused calls while a permission is missing: with pauses, there are a few for each object and watch. */
const MOST_REFUSALS = 30;
/**
 * Makes a server answer as before Kubernetes 1.34: it refuses streamed lists, so the program sends ordinary ones, which
 * need `list`.
 */
export const NO_STREAMED_LISTS: FaultRule = {
  match: { path: /sendInitialEvents=true/ },
  fault: { kind: 'respond', status: 400, body: { kind: 'Status', apiVersion: 'v1', reason: 'BadRequest', code: 400 } },
};

/** A role in a manifest of deploy/. */
export interface Role extends BoundRole {
  readonly file: RoleFile;
  readonly plane: ControlPlane;
}

/** @param namespace - of the role; `undefined` for a ClusterRole */
export function roleOf(file: RoleFile, name: string, plane: ControlPlane, user: string, namespace?: string): Role {
  const rbac = '/apis/rbac.authorization.k8s.io/v1';
  const path = namespace === undefined ? `clusterroles/${name}` : `namespaces/${namespace}/roles/${name}`;
  return { file, plane, admin: plane.api, user, path: `${rbac}/${path}`, namespace: namespace ?? 'default' };
}

/** One program, and the permissions that it lost and got back so far. */
export class Trial {
  #program: Keyferry | undefined;
  /** The permissions that were removed, as `<file> <kind of role> <resource> <verb>`. */
  readonly #taken = new Set<string>();
  readonly #missing = new Set<Missing>();

  get program(): Keyferry {
    if (this.#program === undefined) throw new Error('the program was not started');
    return this.#program;
  }

  /** Goes on with a new process. */
  async start(program: Promise<Keyferry>): Promise<void> {
    this.#program = await program;
  }

  /**
   * The output since it had `length` characters, if the program is still the process `before`; otherwise all output.
   */
  outputSince(before: Keyferry | undefined, length: number): string {
    return this.program.output.slice(before === this.#program ? length : 0).replaceAll('\\"', '"');
  }

  async take(role: Role, call: string): Promise<Missing> {
    this.#taken.add(`${role.file} ${role.path.includes('/clusterroles/') ? 'ClusterRole' : 'Role'} ${call}`);
    const restore = await removePermission(role, call);
    const missing = new Missing(this, role, call, this.#program, async () => {
      this.#missing.delete(missing);
      await restore();
    });
    this.#missing.add(missing);
    return missing;
  }

  /** Runs `use` without the permission, waits until the log names it, gives it back, and runs `then`. */
  async without(role: Role, call: string, use: () => Promise<unknown>, then: () => Promise<unknown>): Promise<void> {
    const missing = await this.take(role, call);
    await use();
    await missing.isNamed();
    await missing.giveBack();
    await then();
  }

  async isReady(): Promise<boolean> {
    try {
      return await this.program.isReady();
    } catch {
      // No answer: the program does not listen yet.
      return false;
    }
  }

  /** Waits until the program is not ready, because one of its watches is broken. */
  async isUnready(): Promise<void> {
    await waitFor(async () => !(await this.isReady()), { message: 'the program not to be ready' });
  }

  /** Gives back all permissions that a failed test removed. For `afterEach`. */
  async restoreAll(): Promise<void> {
    for (const missing of this.#missing) await missing.restore();
  }

  /** Checks that every permission in these files was removed once. */
  assertComplete(...files: readonly RoleFile[]): void {
    const granted = files.flatMap((file) =>
      Object.entries<readonly string[]>(GRANTED[file].roles).flatMap(([role, rights]) =>
        Array.from(callsOf(rights), (call) => `${file} ${role.split(' ')[0]} ${call}`),
      ),
    );
    assert.deepEqual([...this.#taken].toSorted(), granted.toSorted());
  }
}

/** A permission that was removed. */
class Missing {
  readonly restore: () => Promise<void>;
  readonly #trial: Trial;
  readonly #role: Role;
  readonly #call: string;
  /** The process that ran when the permission was removed. */
  readonly #program: Keyferry | undefined;
  readonly #logged: number;

  constructor(trial: Trial, role: Role, call: string, program: Keyferry | undefined, restore: () => Promise<void>) {
    this.restore = restore;
    this.#trial = trial;
    this.#role = role;
    this.#call = call;
    this.#program = program;
    this.#logged = program?.output.length ?? 0;
  }

  /** Waits until the program's log names the permission. */
  async isNamed(): Promise<void> {
    const [resource = '', verb = ''] = this.#call.split(' ');
    const words = `cannot ${verb} resource "${resource}"`;
    const log = (): string => this.#trial.outputSince(this.#program, this.#logged);
    await waitFor(() => log().includes(words), { message: () => `the log to contain ${words}\n${log().slice(-2000)}` });
  }

  /**
   * Waits until the server has refused a call, in place of `isNamed` where the log has the failure only once a minute.
   */
  async isRefused(): Promise<void> {
    await waitFor(() => this.#refused().length > 0, { message: `${this.#call} to be refused` });
  }

  /** Gives the permission back. Checks that the program still runs, and sent only a few calls without it. */
  async giveBack(): Promise<void> {
    const refused = this.#refused();
    await this.restore();
    assert.ok(refused.length > 0, `${this.#call} was not needed`);
    assert.ok(refused.length <= MOST_REFUSALS, `${this.#call} was refused ${refused.length} times`);
    assert.ok(this.#trial.program.running, this.#trial.program.output.slice(-2000));
  }

  /**
   * Removes another permission before it gives this one back, so that a start goes on to its next step and fails there.
   */
  async next(role: Role, call: string): Promise<Missing> {
    const next = await this.#trial.take(role, call);
    await this.giveBack();
    return next;
  }

  #refused(): AuditEntry[] {
    const { plane, user } = this.#role;
    const requests = readAuditLog(plane, user);
    return requests.filter(({ code, resource, verb }) => code === 403 && `${resource} ${verb}` === this.#call);
  }
}
