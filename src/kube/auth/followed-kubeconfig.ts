/**
 * A kubeconfig file that is followed: when its content changes, the client uses the new server and credentials (`Connection.source`).
 *
 * The content is compared, because a mounted Secret is replaced by the swap of a symbolic link, which watches of files miss. While the
 * file cannot be used (missing, empty, half-written, without the context) the connection stays as it is. Tokens and certificates in files of their own
 * are followed as in any kubeconfig (file-value.ts).
 */
import { resolve } from 'node:path';
import type { Connection, ConnectionSource } from '../connection.ts';
import { connectionOf, type KubeconfigOptions } from './kubeconfig.ts';
import { KubeconfigError, parseKubeconfig, readKubeconfig } from './kubeconfig-file.ts';

export interface FollowedKubeconfigOptions extends Omit<KubeconfigOptions, 'path'> {
  readonly path: string;
  /** The flag that names the file, for errors: `--kubeconfig`. */
  readonly flag: string;
  /** Between two checks of the file, ms. Default 30,000. */
  readonly intervalMs?: number;
  /** The file was replaced, and the new connection is used. */
  readonly onReplaced: () => void;
  /** The changed file cannot be used. Called once for each problem, with a message that names file and flag. */
  readonly onProblem: (problem: KubeconfigError) => void;
}

const INTERVAL_MS = 30_000;

/**
 * Reads the file for the first time.
 * @throws KubeconfigError naming flag, file and field
 */
export async function followKubeconfig(options: FollowedKubeconfigOptions): Promise<Connection> {
  return await new FollowedKubeconfig(options).check();
}

class FollowedKubeconfig implements ConnectionSource {
  readonly intervalMs: number;
  readonly #options: FollowedKubeconfigOptions;
  readonly #path: string;
  #content: Buffer | undefined;
  #connection: Connection | undefined;
  /** Of the last check. */
  #problem: string | undefined;
  #checking: Promise<Connection> | undefined;

  constructor(options: FollowedKubeconfigOptions) {
    this.#options = options;
    this.#path = resolve(options.path);
    this.intervalMs = options.intervalMs ?? INTERVAL_MS;
  }

  async check(): Promise<Connection> {
    this.#checking ??= this.#check().finally(() => {
      this.#checking = undefined;
    });
    return await this.#checking;
  }

  async #check(): Promise<Connection> {
    const before = this.#connection;
    try {
      this.#connection = await this.#read();
      this.#problem = undefined;
      if (before !== undefined && this.#connection !== before) this.#options.onReplaced();
      return this.#connection;
    } catch (error) {
      if (before === undefined || !(error instanceof KubeconfigError)) throw error;
      if (error.message !== this.#problem) this.#options.onProblem(error);
      this.#problem = error.message;
      return before;
    }
  }

  /** @returns the present connection if the content has not changed */
  async #read(): Promise<Connection> {
    const { flag } = this.#options;
    const where = `${flag}: ${this.#path}`;
    const content = await readKubeconfig(this.#path, where);
    if (content.toString('utf8').trim() === '') throw new KubeconfigError(where, 'is empty');
    if (this.#connection !== undefined && this.#content?.equals(content) === true) return this.#connection;
    let connection: Connection;
    try {
      connection = connectionOf(await parseKubeconfig(content, this.#path), this.#options);
    } catch (error) {
      if (!(error instanceof KubeconfigError)) throw error;
      throw new KubeconfigError(flag, error.message, { cause: error });
    }
    this.#content = content;
    return { ...connection, source: this };
  }
}
