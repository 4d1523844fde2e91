/**
 * Credentials from a program: the `exec` of a kubeconfig's user (client.authentication.k8s.io v1 and v1beta1).
 *
 * State: no credentials → program runs → credentials are kept until shortly before they expire → program runs … After a
 * failure the error is kept for a few seconds, so that the program is not started again for each key in the queues. The
 * program runs once at a time, and all calls share the result. Its output is secret, so no message quotes it.
 */
import { errorText } from '../../observe/error-fields.ts';
import { type Clock } from '../../runtime/clock.ts';
import { SingleFlight } from '../../runtime/queue/single-flight.ts';
import { CredentialError } from '../errors.ts';
import { isRecord } from '../json.ts';

/** The credentials that a program returned. */
interface PluginCredential {
  readonly token?: string | undefined;
  /** PEM. `cert` and `key` are both set, or both `undefined`. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

export interface ExecSpec {
  /** The field in the kubeconfig, for messages: `users[name=x].user.exec`. */
  readonly field: string;
  readonly apiVersion: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Environment of the program, without `KUBERNETES_EXEC_INFO`. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly installHint?: string | undefined;
  /** `spec.cluster` of `KUBERNETES_EXEC_INFO`, if the kubeconfig sets `provideClusterInfo`. */
  readonly clusterInfo?: (() => Promise<Readonly<Record<string, unknown>>>) | undefined;
}

/** Longest run of a program, ms. Programs that need a terminal cannot be used. */
const RUN_LIMIT_MS = 30_000;
/** Shortest time between two starts of a program, ms, even if the server refuses its credentials. */
const MIN_INTERVAL_MS = 5_000;
/** Credentials are renewed this long before they expire, ms, but not before nine tenths of their lifetime. */
const EXPIRY_MARGIN_MS = 30_000;
const MAX_OUTPUT = 1024 * 1024;
const MAX_STDERR = 300;

interface Run {
  readonly at: number;
  readonly outcome: PluginCredential | CredentialError;
  /** The outcome of the run is used until this time, monotonic ms. */
  readonly freshUntil: number;
}

/** Runs the program when credentials are needed. While the credentials are equal, `get` returns the same object. */
export class ExecPlugin {
  readonly #spec: ExecSpec;
  readonly #clock: Clock;
  #last: Run | undefined;
  readonly #runs = new SingleFlight<PluginCredential>();

  constructor(spec: ExecSpec, clock: Clock) {
    this.#spec = spec;
    this.#clock = clock;
  }

  async get(): Promise<PluginCredential> {
    const last = this.#last;
    if (last !== undefined && this.#clock.monotonic() < last.freshUntil) {
      if (last.outcome instanceof CredentialError) throw last.outcome;
      return last.outcome;
    }
    return await this.#runs.run(this.#spec.field, () => this.#run());
  }

  invalidate(): void {
    const last = this.#last;
    if (last === undefined) return;
    this.#last = { ...last, freshUntil: Math.min(last.freshUntil, last.at + MIN_INTERVAL_MS) };
  }

  async #run(): Promise<PluginCredential> {
    try {
      const output = await this.#output();
      const { credential, expiresAt } = parseExecCredential(output, this.#spec);
      const at = this.#clock.monotonic();
      const life = expiresAt === undefined ? Infinity : expiresAt - this.#clock.now();
      const freshUntil = at + Math.max(life - EXPIRY_MARGIN_MS, life * 0.9, MIN_INTERVAL_MS);
      this.#last = { at, outcome: this.#sameAsBefore(credential), freshUntil };
      return this.#last.outcome as PluginCredential;
    } catch (error) {
      const outcome = error instanceof CredentialError ? error : this.#failure(`failed: ${errorText(error)}`, error);
      const at = this.#clock.monotonic();
      this.#last = { at, outcome, freshUntil: at + MIN_INTERVAL_MS };
      throw outcome;
    }
  }

  #sameAsBefore(credential: PluginCredential): PluginCredential {
    const before = this.#last?.outcome;
    if (before === undefined || before instanceof CredentialError) return credential;
    const same = before.token === credential.token && before.cert === credential.cert && before.key === credential.key;
    return same ? before : credential;
  }

  async #output(): Promise<string> {
    const { command, args, env, apiVersion, clusterInfo } = this.#spec;
    const spec = { interactive: false, cluster: await clusterInfo?.() };
    const info = { apiVersion, kind: 'ExecCredential', spec };
    // Loaded only here, because most users have no exec plugin.
    const { spawn } = await import('node:child_process');
    // Not `execFile`: it waits until the pipes are closed, however long, and it limits stderr, too.
    return await new Promise<string>((resolve, reject) => {
      const child = spawn(command, args, {
        env: { ...env, KUBERNETES_EXEC_INFO: JSON.stringify(info) },
        stdio: ['ignore', 'pipe', 'pipe'],
        windowsHide: true,
      });
      const output: Buffer[] = [];
      let size = 0;
      let stderrText = '';
      const end = (outcome: string | CredentialError): void => {
        timer.cancel();
        // If the program has started another process, that process may keep the pipes open after the program has ended.
        child.stdout.destroy();
        child.stderr.destroy();
        if (typeof outcome === 'string') resolve(outcome);
        else reject(outcome);
      };
      const kill = (why: string): void => {
        child.kill('SIGKILL');
        end(this.#failure(why));
      };
      const timer = this.#clock.setTimeout(() => kill(`gave no answer within ${RUN_LIMIT_MS} ms`), RUN_LIMIT_MS);
      child.stdout.on('data', (piece: Buffer) => {
        size += piece.length;
        output.push(piece);
        if (size > MAX_OUTPUT) kill(`printed more than ${MAX_OUTPUT} bytes`);
      });
      child.stderr.on('data', (piece: Buffer) => {
        stderrText = (stderrText + piece.toString('utf8')).slice(-MAX_STDERR);
      });
      child.on('error', (error) => {
        const missing = 'code' in error && error.code === 'ENOENT';
        end(this.#failure(missing ? 'was not found' : `could not be started: ${error.message}`, error));
      });
      child.on('close', (code, signal) => {
        if (code === 0) end(Buffer.concat(output).toString('utf8'));
        else end(this.#failure(`ended with ${code === null ? signal : `code ${code}`}: ${stderrText.trim()}`));
      });
    });
  }

  #failure(what: string, cause?: unknown): CredentialError {
    const { field, command, installHint } = this.#spec;
    const hint = installHint === undefined ? '' : `\n${installHint}`;
    return new CredentialError(`${field}: ${JSON.stringify(command)} ${what}${hint}`, { cause });
  }
}

/**
 * Parses the output of the program.
 * @returns the credential, and when it expires, ms since 1970 (`undefined`: never)
 * @throws CredentialError that names the field, without any part of the output
 */
export function parseExecCredential(
  output: string,
  { field, command, apiVersion }: Pick<ExecSpec, 'field' | 'command' | 'apiVersion'>,
): { credential: PluginCredential; expiresAt: number | undefined } {
  const refuse = (why: string): CredentialError =>
    new CredentialError(`${field}: ${JSON.stringify(command)} printed no usable ExecCredential: ${why}`);
  let parsed: unknown;
  try {
    parsed = JSON.parse(output);
  } catch {
    // The message of `JSON.parse` quotes the output, which may be a token.
    throw refuse('it is not JSON');
  }
  if (!isRecord(parsed) || parsed['kind'] !== 'ExecCredential') throw refuse('kind is not "ExecCredential"');
  if (parsed['apiVersion'] !== apiVersion) throw refuse(`apiVersion is not ${JSON.stringify(apiVersion)}`);
  const status = parsed['status'];
  if (!isRecord(status)) throw refuse('status is missing');
  const string = (name: string): string | undefined => {
    const value = status[name];
    if (value === undefined || value === null || value === '') return undefined;
    if (typeof value !== 'string') throw refuse(`status.${name} is not a string`);
    return value;
  };
  const token = string('token');
  const cert = string('clientCertificateData');
  const key = string('clientKeyData');
  if ((cert === undefined) !== (key === undefined)) {
    throw refuse('status has only one of clientCertificateData and clientKeyData');
  }
  if (token === undefined && cert === undefined) throw refuse('status has neither a token nor a client certificate');
  if (token !== undefined && !/^[\x21-\x7e]+$/u.test(token))
    throw refuse('status.token has characters that are not allowed in a token');
  const expiry = string('expirationTimestamp');
  const expiresAt = expiry === undefined ? undefined : Date.parse(expiry);
  if (Number.isNaN(expiresAt)) throw refuse('status.expirationTimestamp is not a time');
  return { credential: { token, cert, key }, expiresAt };
}
