/** Borrows servers for a test file. `protocol.ts` describes the lending. */
import { connect, type Socket } from 'node:net';

import type { ControlPlaneAccess } from '../control-plane-servers.ts';
import { type Offer, RETURN, SOCKET_VARIABLE, type Wish } from './protocol.ts';

/** Servers that belong to the lender. This test file uses them until it returns them. */
export class Loan {
  readonly access: ControlPlaneAccess;
  /** The process id of the API server. A test may suspend it, and must resume it before it returns the servers. */
  readonly apiServerPid: number;
  /** The connection to the lender. It ends with this process, at the latest. */
  readonly #socket: Socket;
  #isReturned = false;

  constructor(access: ControlPlaneAccess, apiServerPid: number, socket: Socket) {
    this.access = access;
    this.apiServerPid = apiServerPid;
    this.#socket = socket;
  }

  /**
   * Tells the lender that this process no longer needs the servers. The lender gives them to the next test file when
   * this process has ended, and with it everything that it started.
   */
  async stop(): Promise<void> {
    if (this.#isReturned) return;
    this.#isReturned = true;
    await new Promise<void>((resolve) => {
      this.#socket.write(`${RETURN}\n`, () => resolve());
    });
  }
}

/** Borrows servers. @returns `undefined` if there is no lender @throws Error if the lender could not start servers */
export async function borrow(options: { readonly audit?: boolean }): Promise<Loan | undefined> {
  const path = process.env[SOCKET_VARIABLE];
  if (path === undefined || path === '') return undefined;
  const socket = connect(path);
  const wish: Wish = { audit: options.audit ?? false };
  socket.write(`${JSON.stringify(wish)}\n`);
  const offer = await readOffer(socket);
  // Without this, the connection would keep the test's process alive.
  socket.unref();
  if ('error' in offer) throw new Error(`the lender of control planes: ${offer.error}`);
  return new Loan(offer.access, offer.apiServerPid, socket);
}

async function readOffer(socket: Socket): Promise<Offer> {
  let text = '';
  socket.setEncoding('utf8');
  return new Promise((resolve, reject) => {
    socket.once('error', reject);
    socket.once('close', () => reject(new Error('the lender of control planes ended')));
    socket.on('data', (chunk: string) => {
      text += chunk;
      if (text.endsWith('\n')) resolve(JSON.parse(text) as Offer);
    });
  });
}
