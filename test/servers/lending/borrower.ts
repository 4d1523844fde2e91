/** The side of the test file: see `protocol.ts`. */
import { connect, type Socket } from 'node:net';

import type { ControlPlaneAccess } from '../control-plane-servers.ts';
import { type Offer, RETURN, SOCKET_VARIABLE, type Wish } from './protocol.ts';

/** Servers that belong to the lender. */
export class Loan {
  readonly access: ControlPlaneAccess;
  /** Its end, with this process, ends the loan. */
  readonly #socket: Socket;
  #isReturned = false;

  constructor(access: ControlPlaneAccess, socket: Socket) {
    this.access = access;
    this.#socket = socket;
  }

  /** Says that this process needs the servers no longer. Another one gets them when this process has ended, with all that it started. */
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
  // A test must not wait for the lender at its end.
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
