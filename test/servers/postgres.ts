/**
 * Runs a PostgreSQL on loopback, in which Vault's `database` engine creates users. It uses the PostgreSQL that is
 * installed (Debian: `apt-get install postgresql`). The data are in a temporary folder.
 *
 * PostgreSQL refuses to run as root. If the test runs as root, PostgreSQL runs as `postgres`, or as `nobody` if there
 * is no such user.
 */
import { execFile } from 'node:child_process';
import { accessSync, constants, globSync, readFileSync } from 'node:fs';
import { chown, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

import { freePort } from './ports.ts';
import { Reaper } from './reaper.ts';
import { ServerProcess } from './server-process.ts';

export interface PostgresServer {
  readonly host: '127.0.0.1';
  readonly port: number;
  /** The name of the superuser. */
  readonly user: 'keyferry';
  readonly password: string;
  readonly database: 'postgres';
  /** The value for the field `connection_url` in Vault. It contains Vault's placeholders for user and password. */
  readonly vaultConnectionUrl: string;
  /** Runs SQL with psql, as superuser or as `login`. @returns the rows as lines, columns separated by `|` */
  sql(text: string, login?: { readonly user: string; readonly password: string }): Promise<string>;
  /** Sends SIGQUIT: PostgreSQL ends immediately. Its data stay for `start`. */
  halt(): Promise<void>;
  /** Starts PostgreSQL again after `halt`, on the same port. */
  start(): Promise<void>;
  /** Ends PostgreSQL and deletes its folder. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

interface Identity {
  readonly uid?: number;
  readonly gid?: number;
}

const PASSWORD = 'keyferry-test';
const PROGRAMS = ['initdb', 'postgres', 'psql'];

/** The folder with PostgreSQL's programs; or what is missing, so that the test is skipped. */
export function findPostgres(): { readonly bin: string } | { readonly missing: string } {
  const installed = globSync('/usr/lib/postgresql/*/bin').toSorted((a, b) => majorOf(b) - majorOf(a));
  const onPath = (process.env['PATH'] ?? '').split(path.delimiter).filter((folder) => folder !== '');
  for (const bin of [...onPath, ...installed]) {
    if (PROGRAMS.every((program) => isExecutable(path.join(bin, program)))) return { bin };
  }
  return {
    missing: `PostgreSQL is not installed (${PROGRAMS.join(', ')} neither on the PATH nor in /usr/lib/postgresql)`,
  };
}

/**
 * @throws Error if PostgreSQL is not installed (see `findPostgres`); Error with the end of its log if it does not start
 */
export async function startPostgres(): Promise<PostgresServer> {
  const found = findPostgres();
  if ('missing' in found) throw new Error(found.missing);
  const folder = await Reaper.shared().temporaryFolder('keyferry-postgres-');
  const identity = unprivileged();
  const data = path.join(folder, 'data');
  const passwordFile = path.join(folder, 'password');
  const port = await freePort();
  await mkdir(data);
  await writeFile(passwordFile, PASSWORD, { mode: 0o600 });
  if (identity.uid !== undefined && identity.gid !== undefined) {
    for (const file of [folder, data, passwordFile]) await chown(file, identity.uid, identity.gid);
  }
  const init = ['-D', data, '-U', 'keyferry', '-A', 'scram-sha-256', `--pwfile=${passwordFile}`, '-E', 'UTF8'];
  await promisify(execFile)(path.join(found.bin, 'initdb'), [...init, '--locale=C', '--no-sync'], {
    cwd: folder,
    ...identity,
  });
  const server = new PrivatePostgres(found.bin, folder, port, identity);
  try {
    await server.start();
    return server;
  } catch (error) {
    await server.stop();
    throw error;
  }
}

class PrivatePostgres implements PostgresServer {
  readonly host = '127.0.0.1';
  readonly port: number;
  readonly user = 'keyferry';
  readonly password = PASSWORD;
  readonly database = 'postgres';
  readonly vaultConnectionUrl: string;
  readonly #bin: string;
  readonly #folder: string;
  readonly #identity: Identity;
  #process: ServerProcess | undefined;

  constructor(bin: string, folder: string, port: number, identity: Identity) {
    this.port = port;
    this.vaultConnectionUrl = `postgresql://{{username}}:{{password}}@127.0.0.1:${port}/postgres?sslmode=disable`;
    this.#bin = bin;
    this.#folder = folder;
    this.#identity = identity;
  }

  async sql(text: string, login: { readonly user: string; readonly password: string } = this): Promise<string> {
    const target = ['-h', this.host, '-p', String(this.port), '-U', login.user, '-d', this.database];
    const options = ['--no-psqlrc', '--tuples-only', '--no-align', '--quiet', '-v', 'ON_ERROR_STOP=1', '-c', text];
    const { stdout } = await promisify(execFile)(path.join(this.#bin, 'psql'), [...target, ...options], {
      cwd: this.#folder,
      env: { ...process.env, PGPASSWORD: login.password, PGCONNECT_TIMEOUT: '5' },
    });
    return stdout.trim();
  }

  async start(): Promise<void> {
    if (this.#process?.running === true) return;
    // No sockets in the file system. No fsync, because the data need not survive a power cut.
    const settings = ['unix_socket_directories=', 'fsync=off', 'synchronous_commit=off', 'full_page_writes=off'];
    this.#process = new ServerProcess({
      name: 'postgres',
      command: path.join(this.#bin, 'postgres'),
      args: [
        '-D',
        path.join(this.#folder, 'data'),
        '-h',
        this.host,
        '-p',
        String(this.port),
        ...settings.flatMap((setting) => ['-c', setting]),
      ],
      cwd: this.#folder,
      logFile: path.join(this.#folder, 'postgres.log'),
      ...this.#identity,
    });
    await this.#process.ready(async () => (await this.sql('select 1')) === '1', 120_000);
  }

  async halt(): Promise<void> {
    await this.#process?.stop(5_000, 'SIGQUIT');
  }

  async stop(): Promise<void> {
    await this.halt();
    await Reaper.shared().removeFolder(this.#folder);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }
}

function majorOf(folder: string): number {
  return Number(/\/postgresql\/(\d+)/.exec(folder)?.[1] ?? 0);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch (error) {
    // This folder does not have the program.
    void error;
    return false;
  }
}

/** The user that PostgreSQL runs as: that of this process, unless it is root. @throws Error if no user is suitable */
function unprivileged(): Identity {
  if (process.getuid?.() !== 0) return {};
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  const user = users.find(([name]) => name === 'postgres') ?? users.find(([name]) => name === 'nobody');
  if (user === undefined)
    throw new Error('PostgreSQL must not run as root, and there is no user "postgres" or "nobody"');
  return { uid: Number(user[2]), gid: Number(user[3]) };
}
