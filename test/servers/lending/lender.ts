/**
 * Lends running control planes to the test files of `npm test`, one after the other. `protocol.ts` describes the
 * lending.
 *
 * States of the servers: starting → lent → being cleaned → idle → lent → … → stopped. When the process of a test file
 * has ended after it returned the servers, or when it asks for servers again, they are cleaned (`baseline.ts`). They are
 * stopped if the file did not return them, if they cannot be cleaned, if too many are idle, or if the API server uses
 * much memory.
 *
 * Servers have the CRDs of Keyferry or none, as the next borrower wishes. If no idle ones are as wished, the CRDs are
 * installed in others, or deleted from them.
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

/** The largest number of idle servers. An idle API server uses a hundredth of a core. */
const MOST_IDLE = 3;
/**
 * If the API server uses more memory than this (bytes), it is not lent again. A new API server uses 280 MiB. After
 * large CRDs, it keeps a gigabyte.
 */
const MOST_MEMORY = 800 * 2 ** 20;

interface Lendable {
  readonly servers: ControlPlaneServers;
  /** The servers without CRDs. */
  readonly bare: Baseline;
  /** The servers with the CRDs of Keyferry; `undefined` while these are not installed. */
  withCrds: Baseline | undefined;
}

export class Lender implements AsyncDisposable {
  /** Path of the lender's socket, for `SOCKET_VARIABLE`. */
  readonly path: string;
  readonly #folder: string;
  readonly #listener: Server;
  readonly #pool = new Pool();
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
    return `${this.#pool.starts} starts for ${this.#pool.loans} loans`;
  }

  /** Stops all servers. */
  async stop(): Promise<void> {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
    await this.#pool.stop();
    await Reaper.shared().removeFolder(this.#folder);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  #serve(socket: Socket): void {
    this.#sockets.add(socket);
    let rest = '';
    let lent: Promise<Lendable> | undefined;
    let isReturned = false;
    const lend = (wish: Wish): void => {
      lent = lent === undefined ? this.#pool.take(wish) : this.#pool.takeAgain(lent, wish);
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
      if (lent !== undefined) this.#pool.giveBack(lent, isReturned);
    });
  }
}

function send(socket: Socket, offer: Offer): void {
  socket.write(`${JSON.stringify(offer)}\n`);
}

/** All running servers. */
class Pool {
  starts = 0;
  loans = 0;
  readonly #idle: Lendable[] = [];
  /** The servers that are being cleaned. */
  readonly #cleaned = new Set<Promise<unknown>>();
  /** All running servers. `stop` ends them. */
  readonly #all = new Set<Lendable>();
  readonly #busy = new Set<Promise<unknown>>();
  #isStopped = false;

  async take(wish: Wish): Promise<Lendable> {
    this.loans += 1;
    while (this.#idle.length + this.#cleaned.size > 0) {
      if (this.#idle.length === 0) await Promise.race(this.#cleaned);
      const asWished = this.#idle.findIndex(({ withCrds }) => (withCrds !== undefined) === wish.crds);
      const [lendable] = this.#idle.splice(Math.max(asWished, 0), 1);
      const ready = lendable && (await this.#track(this.#ready(lendable, wish)));
      if (ready !== undefined) return ready;
    }
    return this.#track(this.#start(wish));
  }

  /** Cleans the servers that a borrower has returned, and lends them to it again; or lends others. */
  async takeAgain(lent: Promise<Lendable>, wish: Wish): Promise<Lendable> {
    const cleaned = await this.#track(this.#receive(lent, true));
    const ready = cleaned && (await this.#track(this.#ready(cleaned, wish)));
    if (ready === undefined) return this.take(wish);
    this.loans += 1;
    return ready;
  }

  giveBack(lent: Promise<Lendable>, isReturned: boolean): void {
    const isWanted = isReturned && this.#idle.length + this.#cleaned.size < MOST_IDLE;
    const cleaned = this.#track(this.#shelve(lent, isWanted)).finally(() => this.#cleaned.delete(cleaned));
    this.#cleaned.add(cleaned);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.allSettled(this.#busy);
    await Promise.all(Array.from(this.#all, (one) => this.#keep(one, false)));
  }

  async #start(wish: Wish): Promise<Lendable> {
    this.starts += 1;
    const servers = await ControlPlaneServers.start({ audit: true, users: LENT_USERS });
    try {
      const bare = await Baseline.take(servers.access);
      const lendable = { servers, bare, withCrds: wish.crds ? await installCrds(servers) : undefined };
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
    return await this.#keep(lendable, isWanted && !this.#isStopped && (await isClean(lendable)));
  }

  async #shelve(lent: Promise<Lendable>, isWanted: boolean): Promise<void> {
    const lendable = await this.#receive(lent, isWanted);
    if (lendable !== undefined) this.#idle.push(lendable);
  }

  /** Makes clean servers as the borrower wishes. @returns `undefined` if that failed; the servers are then stopped */
  async #ready(lendable: Lendable, wish: Wish): Promise<Lendable | undefined> {
    const { servers, bare, withCrds } = lendable;
    const isReady = await tried(async () => {
      if (wish.crds) lendable.withCrds ??= await installCrds(servers);
      else if (withCrds !== undefined) {
        dropCrds(lendable);
        if (!(await bare.restore())) return false;
      }
      await truncate(servers.access.layout.auditLog);
      return true;
    });
    return await this.#keep(lendable, isReady);
  }

  async #keep(lendable: Lendable, isKept: boolean): Promise<Lendable | undefined> {
    if (isKept) return lendable;
    this.#all.delete(lendable);
    dropCrds(lendable);
    lendable.bare[Symbol.dispose]();
    await lendable.servers.stop();
    return undefined;
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

/** Restores returned servers. They keep the CRDs, if the borrower has not changed these. */
function isClean(lendable: Lendable): Promise<boolean> {
  const { servers, bare } = lendable;
  return tried(async () => {
    if ((await servers.apiServerMemory()) > MOST_MEMORY) return false;
    if ((await lendable.withCrds?.restore()) === true) return true;
    dropCrds(lendable);
    return await bare.restore();
  });
}

/** From now on, the CRDs of Keyferry are something of a test, which `bare` deletes. */
function dropCrds(lendable: Lendable): void {
  lendable.withCrds?.[Symbol.dispose]();
  lendable.withCrds = undefined;
}

async function tried(work: () => Promise<boolean>): Promise<boolean> {
  try {
    return await work();
  } catch (error) {
    process.stderr.write(`lender: a control plane cannot be lent again: ${String(error)}\n`);
    return false;
  }
}

/** @returns the servers with the CRDs */
async function installCrds({ access }: ControlPlaneServers): Promise<Baseline> {
  const { certPem: caPem } = access.authority;
  using api = new TestApi({ url: apiServerUrl(access), caPem, token: tokenOf(access, 'admin') });
  const crds = await api.apply(readCrds());
  const versions = crds.flatMap(({ spec }) => spec.versions.map(({ name }: Json) => `${spec.group}/${name}`));
  const served = async (): Promise<string[]> =>
    (await api.get('/apis')).groups.flatMap((one: Json) => one.versions.map((of: Json) => of.groupVersion));
  await waitFor(async () => (await served()).filter((one) => versions.includes(one)).length === versions.length, {
    message: 'the APIs of the CRDs',
  });
  return await Baseline.take(access);
}
