/**
 * Lends running control planes to the test files of `npm test`, one after the other. `protocol.ts` describes the
 * lending.
 *
 * States of the servers: starting → lent → being cleaned → idle → lent → … → stopped. When the process of a test file
 * has ended after it returned the servers, they are cleaned (`baseline.ts`). They are stopped if the file did not
 * return them, if they cannot be cleaned, if too many are idle, or if the API server uses much memory.
 */
import { truncate } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import path from 'node:path';

import { ControlPlaneServers } from '../control-plane-servers.ts';
import { Reaper } from '../reaper.ts';
import { Baseline } from './baseline.ts';
import { LENT_USERS, type Offer, RETURN, type Wish } from './protocol.ts';

/**
 * The largest number of idle servers for each kind of `Wish`. A test file borrows at most two; a few run in parallel.
 */
const MOST_IDLE = 3;
/**
 * If the API server uses more memory than this (bytes), it is not lent again. A new API server uses 250 MiB. After
 * large CRDs, it keeps a gigabyte.
 */
const MOST_MEMORY = 600 * 2 ** 20;

interface Lendable {
  readonly servers: ControlPlaneServers;
  readonly baseline: Baseline;
}

export class Lender implements AsyncDisposable {
  /** Path of the lender's socket, for `SOCKET_VARIABLE`. */
  readonly path: string;
  readonly #folder: string;
  readonly #listener: Server;
  readonly #audited = new Shelf(true);
  readonly #others = new Shelf(false);
  readonly #sockets = new Set<Socket>();

  private constructor(folder: string) {
    this.#folder = folder;
    this.path = path.join(folder, 'socket');
    this.#listener = createServer((socket) => this.#serve(socket));
  }

  static async open(): Promise<Lender> {
    const lender = new Lender(await Reaper.shared().temporaryFolder('keyferry-lender-'));
    await new Promise<void>((resolve, reject) => {
      lender.#listener.once('error', reject).listen(lender.path, resolve);
    });
    return lender;
  }

  /** Stops all servers. */
  async stop(): Promise<void> {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all([this.#audited.stop(), this.#others.stop()]);
    await Reaper.shared().removeFolder(this.#folder);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    let received = '';
    let shelf: Shelf | undefined;
    let lent: Promise<Lendable> | undefined;
    socket.setEncoding('utf8').on('data', (text: string) => {
      received += text;
      if (shelf !== undefined || !received.includes('\n')) return;
      const wish = JSON.parse(received.slice(0, received.indexOf('\n'))) as Wish;
      shelf = wish.audit ? this.#audited : this.#others;
      lent = shelf.take();
      lent.then(
        ({ servers }) => send(socket, { access: servers.access, apiServerPid: servers.apiServerPid }),
        (error: unknown) => send(socket, { error: error instanceof Error ? error.message : String(error) }),
      );
    });
    // If the borrower crashes, the connection may end with an error. The event `close` follows and does the work.
    socket.on('error', () => undefined);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      if (lent !== undefined) shelf?.giveBack(lent, received.endsWith(`\n${RETURN}\n`));
    });
  }
}

function send(socket: Socket, offer: Offer): void {
  socket.write(`${JSON.stringify(offer)}\n`);
}

/** All servers for one kind of `Wish` (with or without an audit log). */
class Shelf {
  readonly #audit: boolean;
  /** Servers that are idle or being cleaned. The promise resolves to `undefined` if they could not be cleaned. */
  readonly #back: Promise<Lendable | undefined>[] = [];
  /** All running servers. `stop` ends them. */
  readonly #all = new Set<Lendable>();
  readonly #busy = new Set<Promise<unknown>>();
  #isStopped = false;

  constructor(audit: boolean) {
    this.#audit = audit;
  }

  async take(): Promise<Lendable> {
    for (let next = this.#back.shift(); next !== undefined; next = this.#back.shift()) {
      const lendable = await next;
      if (lendable !== undefined) return lendable;
    }
    return this.#track(this.#start());
  }

  giveBack(lent: Promise<Lendable>, isReturned: boolean): void {
    this.#back.push(this.#track(this.#receive(lent, isReturned && this.#back.length < MOST_IDLE)));
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.allSettled(this.#busy);
    await Promise.all(Array.from(this.#all, (one) => this.#end(one)));
  }

  async #start(): Promise<Lendable> {
    const servers = await ControlPlaneServers.start({ audit: this.#audit, users: LENT_USERS });
    try {
      const lendable = { servers, baseline: await Baseline.take(servers.access) };
      this.#all.add(lendable);
      return lendable;
    } catch (error) {
      await servers.stop();
      throw error;
    }
  }

  async #receive(lent: Promise<Lendable>, isWanted: boolean): Promise<Lendable | undefined> {
    // If the start failed, the borrower has already got the reason.
    const lendable = await lent.catch(() => undefined);
    if (lendable === undefined) return undefined;
    if (isWanted && !this.#isStopped && (await this.#isClean(lendable))) return lendable;
    await this.#end(lendable);
    return undefined;
  }

  async #isClean({ servers, baseline }: Lendable): Promise<boolean> {
    try {
      if ((await servers.apiServerMemory()) > MOST_MEMORY || !(await baseline.restore())) return false;
      if (this.#audit) await truncate(servers.access.layout.auditLog);
      return true;
    } catch (error) {
      process.stderr.write(`lender: a control plane cannot be lent again: ${String(error)}\n`);
      return false;
    }
  }

  async #end(lendable: Lendable): Promise<void> {
    this.#all.delete(lendable);
    lendable.baseline[Symbol.dispose]();
    await lendable.servers.stop();
  }

  async #track<T>(work: Promise<T>): Promise<T> {
    this.#busy.add(work);
    try {
      return await work;
    } finally {
      this.#busy.delete(work);
    }
  }
}
