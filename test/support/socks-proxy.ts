/** A real SOCKS5 proxy (RFC 1928) without a login, for CONNECT by name or IPv4 address. States: listening → closed. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

const NO_LOGIN = Buffer.from([5, 0]);
const CONNECTED = Buffer.from([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
/** The type of an address that is a name; the other one used here is IPv4. */
const NAME = 3;

export class SocksProxy implements AsyncDisposable {
  readonly url: URL;
  /** The targets that clients named, each as `host:port`. */
  readonly targets: string[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server, resolve: (host: string) => string) {
    this.#server = server;
    this.url = new URL(`socks5://127.0.0.1:${(server.address() as AddressInfo).port}`);
    server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.on('error', () => undefined).on('close', () => this.#sockets.delete(socket));
      socket.once('data', () => {
        socket.write(NO_LOGIN);
        socket.once('data', (request) => this.#connect(socket, request, resolve));
      });
    });
  }

  /** @param resolve the address of a name that a client sends */
  static async open(resolve: (host: string) => string): Promise<SocksProxy> {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new SocksProxy(server, resolve);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #connect(socket: Socket, request: Buffer, resolve: (host: string) => string): void {
    const isName = request[3] === NAME;
    const end = isName ? 5 + (request[4] ?? 0) : 8;
    const host = isName ? request.toString('latin1', 5, end) : request.subarray(4, end).join('.');
    const port = request.readUInt16BE(end);
    this.targets.push(`${host}:${port}`);
    const beyond = connect(port, resolve(host), () => {
      socket.write(CONNECTED);
      beyond.pipe(socket).pipe(beyond);
    });
    beyond.on('error', () => socket.destroy());
    socket.on('close', () => beyond.destroy());
  }
}
