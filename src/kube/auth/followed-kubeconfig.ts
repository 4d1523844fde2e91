/**
 * Follows a kubeconfig file (`Connection.source`): when it changes, the client uses its new server and credentials.
 * The file is read and compared from time to time, because the kubelet replaces a mounted Secret by the swap of a
 * symbolic link, which watches of files miss. While the file cannot be used (missing, empty, half-written, without the
 * context) the connection stays as it is. `credentials.ts` follows other files with tokens and certificates.
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
  /** Time between two checks of the file, ms. Default 30,000. */
  readonly intervalMs?: number;
  /** The file was replaced, and the new connection is used. */
  readonly onReplaced: () => void;
  /** The changed file cannot be used. Called once for each problem, with a message that names file and flag. */
  readonly onProblem: (problem: KubeconfigError) => void;
}

const INTERVAL_MS = 30_000;

/**
 * Reads the file for the first time. The client then calls `source.check` to follow it.
 * @throws KubeconfigError naming flag, file and field
 */
export async function followKubeconfig(options: FollowedKubeconfigOptions): Promise<Connection> {
  const { flag, intervalMs = INTERVAL_MS, onReplaced, onProblem } = options;
  const path = resolve(options.path);
  let content: Buffer | undefined;
  let connection: Connection | undefined;
  /** The message of the problem that the last check found. */
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
      return { ...made, source: { intervalMs, check } };
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
