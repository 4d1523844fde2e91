/**
 * Tests what a program does without a permission. It removes the permissions one after the other. Each time the log
 * must name the permission, and the program must neither exit nor repeat the refused call without pauses. When the
 * permission is back, the program must do the work.
 */
import assert from 'node:assert/strict';

import type { ControlPlane } from '../servers/control-plane.ts';
import { readAuditLog } from './audit-log.ts';
import type { AuditEntry } from './audit-log.ts';
import type { RoleFile } from './granted.ts';
import type { Keyferry } from './keyferry.ts';
import { type BoundRole, removePermission } from './removed-permission.ts';
import { waitFor } from './wait-for.ts';

/**
 * Limit of refused calls while a permission is missing. With pauses, a program makes a few for each object and watch.
 */
const MOST_REFUSALS = 30;

/** A role in a manifest of deploy/. */
export interface Role extends BoundRole {
  readonly file: RoleFile;
  readonly plane: ControlPlane;
}

/** @param namespace - the role's namespace; `undefined` for a ClusterRole */
export function roleOf(file: RoleFile, name: string, plane: ControlPlane, user: string, namespace?: string): Role {
  const rbac = '/apis/rbac.authorization.k8s.io/v1';
  const path = namespace === undefined ? `clusterroles/${name}` : `namespaces/${namespace}/roles/${name}`;
  return { file, plane, admin: plane.api, user, path: `${rbac}/${path}`, namespace: namespace ?? 'default' };
}

/** A program under test, and the permissions that were removed and given back until now. */
export class Trial {
  #program: Keyferry | undefined;
  readonly #missing = new Set<Missing>();

  get program(): Keyferry {
    if (this.#program === undefined) throw new Error('the program was not started');
    return this.#program;
  }

  /** Replaces the program by a new process. Permissions that were removed stay as they are. */
  async start(program: Promise<Keyferry>): Promise<void> {
    this.#program = await program;
  }

  /**
   * The output after its first `length` characters. If `before` is no longer the running process, all output.
   */
  outputSince(before: Keyferry | undefined, length: number): string {
    return this.program.output.slice(before === this.#program ? length : 0).replaceAll('\\"', '"');
  }

  async take(role: Role, call: string): Promise<Missing> {
    const restore = await removePermission(role, call);
    const missing = new Missing(this, role, call, this.#program, async () => {
      this.#missing.delete(missing);
      await restore();
    });
    this.#missing.add(missing);
    return missing;
  }

  /** Removes a permission, runs `use`, waits until the log names it, gives it back, and runs `then`. */
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
      // No answer: the program does not listen (yet).
      return false;
    }
  }

  /** Waits until the program reports that it is not ready, because one of its watches fails. */
  async isUnready(): Promise<void> {
    await waitFor(async () => !(await this.isReady()), { message: 'the program not to be ready' });
  }

  /** Gives back all permissions, also those that a failed test had removed. For `afterEach`. */
  async restoreAll(): Promise<void> {
    for (const missing of this.#missing) await missing.restore();
  }
}

/** A permission that is removed now. */
class Missing {
  readonly restore: () => Promise<void>;
  readonly #trial: Trial;
  readonly #role: Role;
  readonly #call: string;
  /** The process that ran when the permission was removed; `undefined`: none. */
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

  /** Waits until the log of the program names the missing permission. */
  async isNamed(): Promise<void> {
    const [resource = '', verb = ''] = this.#call.split(' ');
    const words = `cannot ${verb} resource "${resource}"`;
    const log = (): string => this.#trial.outputSince(this.#program, this.#logged);
    await waitFor(() => log().includes(words), { message: () => `the log to contain ${words}\n${log().slice(-2000)}` });
  }

  /**
   * Waits until the API server has refused a call. For failures that the log names only once a minute, in place of
   * `isNamed`.
   */
  async isRefused(): Promise<void> {
    await waitFor(() => this.#refused().length > 0, { message: `${this.#call} to be refused` });
  }

  /** Gives the permission back. Checks that the program runs, and has sent only a few refused calls. */
  async giveBack(): Promise<void> {
    const refused = this.#refused();
    await this.restore();
    assert.ok(refused.length > 0, `${this.#call} was not needed`);
    assert.ok(refused.length <= MOST_REFUSALS, `${this.#call} was refused ${refused.length} times`);
    assert.ok(this.#trial.program.running, this.#trial.program.output.slice(-2000));
  }

  /**
   * Removes another permission, then gives this one back. So a start that stopped here continues, and fails at its next
   * step.
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
