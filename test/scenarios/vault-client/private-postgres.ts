/**
 * A PostgreSQL cluster of our own for one test file, as an unprivileged user, where the machine has the binaries.
 */
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { freePort } from '../../servers/ports.ts';
import { ServerProcess } from '../../servers/server-process.ts';

/** `nobody` on every Linux: initdb and postgres refuse to run as root. */
const NOBODY = 65_534;

export class PrivatePostgres {
  readonly port: number;
  readonly #process: ServerProcess;
  readonly #folder: string;

  private constructor(port: number, process: ServerProcess, folder: string) {
    this.port = port;
    this.#process = process;
    this.#folder = folder;
  }

  /** `undefined`: this machine has no PostgreSQL. */
  static async start(): Promise<PrivatePostgres | undefined> {
    const initdb = findProgram('initdb');
    const postgres = findProgram('postgres');
    if (initdb === undefined || postgres === undefined) return undefined;
    const folder = mkdtempSync(path.join(tmpdir(), 'keyferry-postgres-'));
    const asRoot = process.getuid?.() === 0;
    if (asRoot) chownSync(folder, NOBODY, NOBODY);
    const who = asRoot ? { uid: NOBODY, gid: NOBODY } : {};
    const data = path.join(folder, 'data');
    const setUp = ['-D', data, '-U', 'vault', '--auth=trust', '--no-sync', '-E', 'UTF8', '--no-locale'];
    execFileSync(initdb, setUp, { ...who, cwd: folder, stdio: 'ignore' });
    const port = await freePort();
    const server = new ServerProcess({
      name: 'postgres',
      command: postgres,
      args: ['-D', data, '-p', String(port), '-h', '127.0.0.1', '-k', folder, '-c', 'fsync=off'],
      cwd: folder,
      logFile: path.join(folder, 'postgres.log'),
      ...who,
    });
    return new PrivatePostgres(port, server, folder);
  }

  async stop(): Promise<void> {
    await this.#process.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

function findProgram(name: string): string | undefined {
  const versions = [17, 16, 15, 14, 13].map((version) => `/usr/lib/postgresql/${version}/bin`);
  const folders = [...(process.env['PATH'] ?? '').split(':'), ...versions].filter((folder) => folder !== '');
  return folders.map((folder) => path.join(folder, name)).find((file) => existsSync(file));
}
