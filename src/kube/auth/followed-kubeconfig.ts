/**
 * Follows a kubeconfig file: when the file changes, the client uses the new server and credentials
 * (`Connection.source`). The file is read and compared at intervals. The kubelet replaces a mounted Secret by a swap of
 * a symbolic link, which watches of files (inotify) miss. While the file cannot be used (missing, empty, half-written,
 * without the context), the connection stays as it is. `credentials.ts` follows files with tokens and certificates.
 */
import { resolve } from 'node:path';
import { SingleFlight } from '../../runtime/queue/single-flight.ts';
import type { Connection } from '../connection.ts';
import { connectionOf, type KubeconfigOptions } from './kubeconfig.ts';
import { KubeconfigError, parseKubeconfig, readKubeconfig } from './kubeconfig-file.ts';

export interface FollowedKubeconfigOptions extends Omit<KubeconfigOptions, 'path'> {
  readonly path: string;
  /** The flag that names the file, for errors: `--kubeconfig`. */
  readonly flag: string;
  /** Called when the file has changed and the new connection is used. */
  readonly onReplaced: () => void;
  /** Called if the changed file cannot be used: once for each problem, with a message that names file and flag. */
  readonly onProblem: (problem: KubeconfigError) => void;
}

/**
 * Reads the file for the first time. After that the client calls `source.check` at intervals.
 * @throws KubeconfigError that names flag, file and field
 */
export async function followKubeconfig(options: FollowedKubeconfigOptions): Promise<Connection> {
  const { flag, onReplaced, onProblem } = options;
  const path = resolve(options.path);
  let content: Buffer | undefined;
  let connection: Connection | undefined;
  /** The message of the problem that the last check found; `undefined`: none. */
  let problem: string | undefined;
  const checks = new SingleFlight<Connection>();

  /** @returns the same connection as before if the content has not changed */
  async function read(): Promise<Connection> {
    const where = `${flag}: ${path}`;
    const now = await readKubeconfig(path, where);
    if (now.toString('utf8').trim() === '') throw new KubeconfigError(where, 'is empty');
    if (connection !== undefined && content?.equals(now) === true) return connection;
    try {
      const made = connectionOf(await parseKubeconfig(now, path), options);
      content = now;
      return { ...made, source: { check } };
    } catch (error) {
      if (!(error instanceof KubeconfigError)) throw error;
      throw new KubeconfigError(flag, error.message, { cause: error });
    }
  }

  async function readAgain(): Promise<Connection> {
    const before = connection;
    try {
      connection = await read();
      problem = undefined;
      if (before !== undefined && connection !== before) onReplaced();
      return connection;
    } catch (error) {
      if (before === undefined || !(error instanceof KubeconfigError)) throw error;
      if (error.message !== problem) onProblem(error);
      problem = error.message;
      return before;
    }
  }

  const check = (): Promise<Connection> => checks.run(path, readAgain);

  return await check();
}
