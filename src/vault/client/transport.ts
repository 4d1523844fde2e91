/** Sends requests to one Vault server over kept connections, and limits the memory for its answers. */
import type { Agent } from 'node:http';
import { closeIdle, openAgent } from '../../http/agent.ts';
import { AnswerTooLargeError, StaleConnectionError } from '../../http/errors.ts';
import { type Answer, exchange, type HttpRequest, type Route, routeTo } from '../../http/exchange.ts';
import type { SecretBytes } from '../../runtime/secret-bytes.ts';
import type { VaultAddresses, VaultServer } from './server.ts';
import { SharedSlots } from './lanes.ts';

interface TransportRequest extends HttpRequest {
  readonly signal: AbortSignal;
  /** Whether the call may be sent a second time if the kept connection was closed before an answer began. */
  readonly repeatable: boolean;
}

interface TransportOptions {
  /** Largest number of open connections. */
  readonly connections: number;
  readonly large: SharedSlots;
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
/** An answer above this size is large. Only `AT_A_TIME` large answers are in memory at a time. */
const LARGE_BYTES = 64 * 1024;
/** Time limit for the rest of a large answer, ms: a slow server must not delay the answers of other servers. */
const LARGE_LIMIT_MS = 5_000;
/** After this time an idle connection is closed, ms: before a load balancer closes it, usually after 60 s. */
const IDLE_MS = 30_000;

export class Transport {
  readonly #route: Route;
  readonly #open: () => Agent;
  readonly #large: LargeAnswers;
  #agent: Agent | undefined;

  constructor(server: VaultServer, { connections, large, addresses, proxy, client }: TransportOptions) {
    const through = proxy === undefined ? undefined : new URL(proxy);
    this.#large = new LargeAnswers(large);
    this.#route = routeTo(server.url, HEADERS, through);
    this.#open = () =>
      openAgent(this.#route, {
        idleMs: IDLE_MS,
        maxSockets: connections,
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
    let timer: NodeJS.Timeout | undefined;
    let slot: Promise<LargeAnswer> | undefined;
    const takeSlot = async (status: number): Promise<LargeAnswer> => {
      const taken = await this.#large.begin(signal);
      timer = setTimeout(() => {
        const reason = `the answer is large, and the rest of it took longer than ${LARGE_LIMIT_MS} ms`;
        abort(new AnswerTooLargeError(status, reason));
      }, LARGE_LIMIT_MS);
      return taken;
    };
    const { answer, abort } = exchange(this.#route, request, {
      agent,
      maxBytes: MAX_ANSWER_BYTES,
      onData: (size, status) => (size > LARGE_BYTES && slot === undefined ? (slot = takeSlot(status)) : undefined),
    });
    let wasFinished = false;
    const giveBack = async (): Promise<void> => {
      const taken = await slot?.catch(() => undefined);
      clearTimeout(timer);
      taken?.end(wasFinished);
    };
    const onAbort = (): void => abort(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      const whole = await answer;
      wasFinished = true;
      return whole;
    } finally {
      signal.removeEventListener('abort', onAbort);
      // Not awaited, so that the caller parses this answer before the next large answer gets the slot.
      void giveBack();
    }
  }
}

/** Number of large answers in memory at a time, of all servers. Each takes up to 10 MiB while it is parsed. */
const AT_A_TIME = 4;
/** A large answer that takes less than this (ms) is prompt. A healthy Vault sends 2 MiB in a few milliseconds. */
const PROMPT_MS = 1_000;
/** Expected time of a server's first large answer, ms. Below the 5 s of a stalled server, so a new one goes first. */
const UNKNOWN_MS = 2_500;
/** Largest number of prompt answers that a server needs to become proven again (see `LargeAnswers`). */
const MOST_REQUIRED = 1_024;

/** Makes the slots for large answers, which all connections of a process share. */
export function largeAnswerSlots(): SharedSlots {
  return new SharedSlots(AT_A_TIME);
}

/** The slot that one large answer takes while it is in memory. */
interface LargeAnswer {
  /** Frees the slot after the answer has left the memory. @param wasFinished whether the whole answer arrived */
  readonly end: (wasFinished: boolean) => void;
}

/**
 * Admits the large answers of one server to the slots of the process, so that large answers take a bounded memory. An
 * answer without a slot waits, with its connection paused.
 * A server that answers slowly must not delay others. So a server becomes *proven* when it finishes a large answer
 * promptly. After a slow answer it is not proven, and needs twice as many prompt answers as the last time. Servers that
 * are not proven share half of the slots. Of the waiting answers, the one of the fastest server goes first.
 */
export class LargeAnswers {
  readonly #slots: SharedSlots;
  /** Number of prompt answers since the last slow answer, and the number that makes the server proven. */
  #prompt = 0;
  #required = 1;
  /** How long the next answer probably keeps its slot, ms: an average in which the last answer counts half. */
  #expectedMs = UNKNOWN_MS;

  constructor(slots: SharedSlots) {
    this.#slots = slots;
  }

  /** Waits for a slot. @throws AbortedError */
  async begin(signal: AbortSignal): Promise<LargeAnswer> {
    const held = await this.#slots.take(signal, this.#isProven, this.#expectedMs);
    const since = performance.now();
    const end = (wasFinished: boolean): void => {
      held[Symbol.dispose]();
      this.#ended(performance.now() - since, wasFinished);
    };
    return { end };
  }

  get #isProven(): boolean {
    return this.#prompt >= this.#required;
  }

  #ended(tookMs: number, wasFinished: boolean): void {
    this.#expectedMs = (this.#expectedMs + tookMs) / 2;
    if (wasFinished && tookMs < PROMPT_MS) {
      this.#prompt++;
      return;
    }
    if (this.#isProven) this.#required = Math.min(2 * this.#required, MOST_REQUIRED);
    this.#prompt = 0;
  }
}
