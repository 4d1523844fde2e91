/** The test file's side of lending: see `protocol.ts`. */
import { connect, type Socket } from 'node:net';

import type { ControlPlaneAccess } from '../control-plane-servers.ts';
import { type Offer, RETURN, SOCKET_VARIABLE, type Wish } from './protocol.ts';

/** Servers that belong to the lender, and that this test file uses. */
export class Loan {
  readonly access: ControlPlaneAccess;
  /** The connection to the lender. It ends with this process, and so does the loan. */
  readonly #socket: Socket;
  #isReturned = false;

  constructor(access: ControlPlaneAccess, socket: Socket) {
    this.access = access;
    this.#socket = socket;
  }

  /**
   * Tells the lender that this process needs the servers no longer. They are lent again when this process, with all
   * that it started, has ended.
   */
  async stop(): Promise<void> {
    if (this.#isReturned) return;
    this.#isReturned = true;
    await new Promise<void>((resolve) => {
      this.#socket.write(`${RETURN}\n`, () => resolve());
    });
  }
}

/** Borrows servers. Returns `undefined` if nobody lends any. @throws Error if the lender could not start them */
export async function borrow(options: { readonly audit?: boolean }): Promise<Loan | undefined> {
  const path = process.env[SOCKET_VARIABLE];
  if (path === undefined || path === '') return undefined;
  const socket = connect(path);
  const wish: Wish = { audit: options.audit ?? false };
  socket.write(`${JSON.stringify(wish)}\n`);
  const offer = await readOffer(socket);
  // The connection must not keep the process of the test alive.
  socket.unref();
  if ('error' in offer) throw new Error(`the lender of control planes: ${offer.error}`);
  return new Loan(offer.access, socket);
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
