/**
 * Lends running control planes to the test files of `npm test`, one after the other. `protocol.ts` describes the
 * lending.
 *
 * States of the servers: starting → lent → being cleaned → idle → lent → … → stopped. When the process of a test file
 * has ended after it returned the servers, or when it asks for servers again, they are cleaned (`baseline.ts`). They are
 * stopped if the file did not return them, if they cannot be cleaned, if too many are idle, or if the API server uses
 * much memory.
 */
import { truncate } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import path from 'node:path';

import { readCrds } from '../../../scripts/crd/read-crds.ts';
import { apiServerUrl, ControlPlaneServers, tokenOf } from '../control-plane-servers.ts';
import { Reaper } from '../reaper.ts';
import { type Json, TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { Baseline } from './baseline.ts';
import { LENT_USERS, type Offer, RETURN, type Wish } from './protocol.ts';

/**
 * The largest number of idle servers for each kind of `Wish`. A test file borrows at most two; a few run in parallel.
 */
const MOST_IDLE = 3;
/**
 * If the API server uses more memory than this (bytes), it is not lent again. A new API server uses 280 MiB. After
 * large CRDs, it keeps a gigabyte.
 */
const MOST_MEMORY = 800 * 2 ** 20;

interface Lendable {
  readonly servers: ControlPlaneServers;
  readonly baseline: Baseline;
}

export class Lender implements AsyncDisposable {
  /** Path of the lender's socket, for `SOCKET_VARIABLE`. */
  readonly path: string;
  readonly #folder: string;
  readonly #listener: Server;
  readonly #bare = new Shelf({ crds: false });
  readonly #prepared = new Shelf({ crds: true });
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

  /** How often servers were started, and how often they were lent. */
  toString(): string {
    const shelves = [this.#bare, this.#prepared];
    const sum = (counts: number[]): number => counts.reduce((all, count) => all + count, 0);
    return `${sum(shelves.map(({ starts }) => starts))} starts for ${sum(shelves.map(({ loans }) => loans))} loans`;
  }

  /** Stops all servers. */
  async stop(): Promise<void> {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all([this.#bare.stop(), this.#prepared.stop()]);
    await Reaper.shared().removeFolder(this.#folder);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    let rest = '';
    let shelf: Shelf | undefined;
    let lent: Promise<Lendable> | undefined;
    let isReturned = false;
    const lend = (wish: Wish): void => {
      shelf ??= wish.crds ? this.#prepared : this.#bare;
      lent = lent === undefined ? shelf.take() : shelf.takeAgain(lent);
      isReturned = false;
      lent.then(
        ({ servers }) => send(socket, { access: servers.access, apiServerPid: servers.apiServerPid }),
        (error: unknown) => send(socket, { error: error instanceof Error ? error.message : String(error) }),
      );
    };
    socket.setEncoding('utf8').on('data', (text: string) => {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) {
        if (line === RETURN) isReturned = true;
        else lend(JSON.parse(line) as Wish);
      }
    });
    // If the borrower crashes, the connection may end with an error. The event `close` follows and does the work.
    socket.on('error', () => undefined);
    socket.once('close', () => {
      this.#sockets.delete(socket);
      if (lent !== undefined) shelf?.giveBack(lent, isReturned);
    });
  }
}

function send(socket: Socket, offer: Offer): void {
  socket.write(`${JSON.stringify(offer)}\n`);
}

/** All servers for one kind of `Wish`. */
class Shelf {
  starts = 0;
  loans = 0;
  readonly #wish: Wish;
  /** Servers that are idle or being cleaned. The promise resolves to `undefined` if they could not be cleaned. */
  readonly #back: Promise<Lendable | undefined>[] = [];
  /** All running servers. `stop` ends them. */
  readonly #all = new Set<Lendable>();
  readonly #busy = new Set<Promise<unknown>>();
  #isStopped = false;

  constructor(wish: Wish) {
    this.#wish = wish;
  }

  async take(): Promise<Lendable> {
    this.loans += 1;
    for (let next = this.#back.shift(); next !== undefined; next = this.#back.shift()) {
      const lendable = await next;
      if (lendable !== undefined) return lendable;
    }
    return this.#track(this.#start());
  }

  /** Cleans the servers that a borrower has returned, and lends them to it again; or lends others. */
  async takeAgain(lent: Promise<Lendable>): Promise<Lendable> {
    const cleaned = await this.#track(this.#receive(lent, true));
    if (cleaned === undefined) return this.take();
    this.loans += 1;
    return cleaned;
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
    this.starts += 1;
    const servers = await ControlPlaneServers.start({ audit: true, users: LENT_USERS });
    try {
      if (this.#wish.crds) await installCrds(servers);
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
      await truncate(servers.access.layout.auditLog);
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

async function installCrds({ access }: ControlPlaneServers): Promise<void> {
  const { certPem: caPem } = access.authority;
  using api = new TestApi({ url: apiServerUrl(access), caPem, token: tokenOf(access, 'admin') });
  const crds = await api.apply(readCrds());
  const versions = crds.flatMap(({ spec }) => spec.versions.map(({ name }: Json) => `${spec.group}/${name}`));
  const served = async (): Promise<string[]> =>
    (await api.get('/apis')).groups.flatMap((one: Json) => one.versions.map((of: Json) => of.groupVersion));
  await waitFor(async () => (await served()).filter((one) => versions.includes(one)).length === versions.length, {
    message: 'the APIs of the CRDs',
  });
}
