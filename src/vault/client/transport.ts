/**
 * Sends requests to one Vault server over kept connections, and limits the memory for its answers.
 *
 * The authors of rules choose the servers, so all large answers of a process together take a bounded memory: they are
 * read one after another, in three rows. So a server that answers slowly delays only servers of its row, and only one
 * of its answers waits beside those of other servers. A large answer that waits has its connection paused.
 *   new ──prompt answer──▶ prompt ──slow answer, or a part of one──▶ slow ──ten minutes──▶ new, or prompt if it was since
 */
import type { Agent } from 'node:http';
import { closeIdle, openAgent } from '../../http/agent.ts';
import { AnswerTooLargeError, StaleConnectionError } from '../../http/errors.ts';
import { type Answer, exchange, type HttpRequest, type Route, routeTo } from '../../http/exchange.ts';
import { KeyedLock } from '../../runtime/queue/keyed-lock.ts';
import type { SecretBytes } from '../../runtime/secret-bytes.ts';
import type { VaultAddresses, VaultServer } from './server.ts';

interface TransportRequest extends HttpRequest {
  readonly signal: AbortSignal;
  /** Whether the call may be sent a second time if the kept connection was closed before an answer began. */
  readonly repeatable: boolean;
}

interface TransportOptions {
  /** Shared by all servers of a process: the turns of their large answers, by row: `new`, `prompt`, `slow`. */
  readonly largeAnswers: KeyedLock;
  /** Decides which addresses the server's name may resolve to. */
  readonly addresses: VaultAddresses;
  /** URL of an HTTP proxy; `undefined`: direct connections. */
  readonly proxy?: string | undefined;
  readonly client?: ClientCertificate | undefined;
}

/** A Vault Agent or Proxy with `require_request_header` refuses calls without `X-Vault-Request`. */
const HEADERS = ['Accept', 'application/json', 'X-Vault-Request', 'true'];

/** Keyferry's client certificate and its key, PEM, for servers that request a client certificate in TLS. */
export interface ClientCertificate {
  readonly certificate: string;
  readonly key: SecretBytes;
}

/** A Kubernetes Secret has at most 1 MiB, in base64 1.4 MiB. The rest is for JSON's escapes and Vault's metadata. */
const MAX_ANSWER_BYTES = 2 * 1024 * 1024;
/** An answer above this size is large. Each takes up to 10 MiB while it is parsed. */
const LARGE_BYTES = 64 * 1024;
/** Time limit for the rest of a large answer, ms: a slow server must not delay the answers of other servers. */
const LARGE_LIMIT_MS = 5_000;
/** A large answer that takes less than this (ms) is prompt. A healthy Vault sends 2 MiB in a few milliseconds. */
const PROMPT_MS = 1_000;
/** A server counts as slow for this time after a slow answer, ms. */
const SLOW_MS = 600_000;
/** Most connections to one server. The queues of polls, targets and the generator together have about 50 calls. */
const CONNECTIONS = 128;
/** After this time an idle connection is closed, ms: before a load balancer closes it, usually after 60 s. */
const IDLE_MS = 30_000;

export class Transport {
  readonly #route: Route;
  readonly #open: () => Agent;
  readonly #largeAnswers: KeyedLock;
  readonly #ownLargeAnswers = new KeyedLock();
  /** Whether a large answer was prompt, and none was slow since then. */
  #isProven = false;
  #slowUntil = -Infinity;
  #agent: Agent | undefined;

  constructor(server: VaultServer, { largeAnswers, addresses, proxy, client }: TransportOptions) {
    const through = proxy === undefined ? undefined : new URL(proxy);
    this.#largeAnswers = largeAnswers;
    this.#route = routeTo(server.url, HEADERS, through);
    this.#open = () =>
      openAgent(this.#route, {
        idleMs: IDLE_MS,
        maxSockets: CONNECTIONS,
        // A proxy resolves the server's name itself.
        ...(through === undefined ? { lookup: addresses.lookupFor(server.url) } : {}),
        tls: {
          rejectUnauthorized: !server.insecureSkipVerify,
          servername: server.tlsServerName,
          ca: server.caBundle,
          ...(client === undefined ? {} : { cert: client.certificate, key: client.key.utf8() }),
        },
      });
  }

  /** Sends a request. @throws the signal's reason, Node's error of the connection, or AnswerTooLargeError */
  async send(request: TransportRequest): Promise<Answer> {
    try {
      return await this.#once(request);
    } catch (error) {
      if (!(error instanceof StaleConnectionError && request.repeatable)) throw error;
      // The server may have closed the other connections, too.
      if (this.#agent !== undefined) closeIdle(this.#agent);
      return await this.#once(request);
    }
  }

  /** Closes all connections, also those in use. */
  destroy(): void {
    this.#agent?.destroy();
  }

  async #once(request: TransportRequest): Promise<Answer> {
    const { signal } = request;
    signal.throwIfAborted();
    // The first call opens the agent, so that an unusable client certificate fails the calls, not the constructor.
    const agent = (this.#agent ??= this.#open());
    const ended = Promise.withResolvers<boolean>();
    let isLarge = false;
    const { answer, abort } = exchange(this.#route, request, {
      agent,
      maxBytes: MAX_ANSWER_BYTES,
      onData: (size, status) => {
        if (isLarge || size <= LARGE_BYTES) return undefined;
        isLarge = true;
        const late = `the answer is large, and the rest of it took longer than ${LARGE_LIMIT_MS} ms`;
        return this.#turn(ended.promise, signal, () => abort(new AnswerTooLargeError(status, late)));
      },
    });
    const onAbort = (): void => abort(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      const whole = await answer;
      ended.resolve(true);
      return whole;
    } catch (error) {
      // One user may store an entry that is too large. The server is not to blame for it.
      ended.resolve(error instanceof AnswerTooLargeError);
      throw error;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /**
   * Waits until the rest of a large answer may be read.
   * @param ended resolves when nothing more is read; `false`: the answer broke off
   * @param onLate called if the answer has not ended in time
   */
  #turn(ended: Promise<boolean>, signal: AbortSignal, onLate: () => void): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const read = async (): Promise<void> => {
      const since = performance.now();
      const timer = setTimeout(onLate, LARGE_LIMIT_MS);
      resolve();
      const isWhole = await ended;
      clearTimeout(timer);
      const now = performance.now();
      this.#isProven = isWhole && now - since < PROMPT_MS;
      if (!this.#isProven) this.#slowUntil = now + SLOW_MS;
    };
    const next = (): Promise<void> => this.#largeAnswers.run(this.#row, read, signal);
    this.#ownLargeAnswers.run('', next, signal).catch(reject);
    return promise;
  }

  get #row(): string {
    if (performance.now() < this.#slowUntil) return 'slow';
    return this.#isProven ? 'prompt' : 'new';
  }
}
