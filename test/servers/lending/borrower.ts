/** Borrows servers for a test file. `protocol.ts` describes the lending. */
import { connect, type Socket } from 'node:net';
import { createInterface } from 'node:readline';

import type { ControlPlaneAccess } from '../control-plane-servers.ts';
import { type Offer, RETURN, SOCKET_VARIABLE, type Wish } from './protocol.ts';

/** Connections over which this process has returned servers. The lender cleans and lends these servers to it again. */
const returned: Connection[] = [];

/** A connection to the lender. It ends with this process, at the latest. */
class Connection {
  /** What this process asked for last. */
  wish: Wish | undefined;
  readonly #socket: Socket;
  readonly #lines: AsyncIterator<string>;

  constructor(path: string) {
    this.#socket = connect(path);
    this.#lines = createInterface({ input: this.#socket })[Symbol.asyncIterator]();
  }

  async ask(wish: Wish): Promise<Offer> {
    this.wish = wish;
    this.#socket.ref();
    this.#socket.write(`${JSON.stringify(wish)}\n`);
    const line = await this.#lines.next();
    // Without this, the connection would keep the test's process alive.
    this.#socket.unref();
    if (line.done === true) throw new Error('the lender of control planes ended');
    return JSON.parse(line.value) as Offer;
  }

  async giveBack(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#socket.write(`${RETURN}\n`, () => resolve());
    });
    returned.push(this);
  }
}

/** Servers that belong to the lender. This test file uses them until it returns them. */
export class Loan {
  readonly access: ControlPlaneAccess;
  /** The process id of the API server. A test may suspend it, and must resume it before it returns the servers. */
  readonly apiServerPid: number;
  readonly #connection: Connection;
  #isReturned = false;

  constructor(access: ControlPlaneAccess, apiServerPid: number, connection: Connection) {
    this.access = access;
    this.apiServerPid = apiServerPid;
    this.#connection = connection;
  }

  /**
   * Tells the lender that this process no longer needs the servers. The lender gives them to the next test file when
   * this process has ended, and with it everything that it started.
   */
  async stop(): Promise<void> {
    if (this.#isReturned) return;
    this.#isReturned = true;
    await this.#connection.giveBack();
  }
}

/** Borrows servers. @returns `undefined` if there is no lender @throws Error if the lender could not start servers */
export async function borrow(wish: Wish): Promise<Loan | undefined> {
  const path = process.env[SOCKET_VARIABLE];
  if (path === undefined || path === '') return undefined;
  const asWished = returned.findIndex((one) => one.wish?.crds === wish.crds);
  const connection = returned.splice(Math.max(asWished, 0), 1)[0] ?? new Connection(path);
  const offer = await connection.ask(wish);
  if ('error' in offer) throw new Error(`the lender of control planes: ${offer.error}`);
  return new Loan(offer.access, offer.apiServerPid, connection);
}
