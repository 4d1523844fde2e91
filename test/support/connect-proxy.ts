/** A real HTTP proxy that only opens tunnels (method CONNECT). States: listening → closed. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';

export class ConnectProxy implements AsyncDisposable {
  readonly url: URL;
  /** The header Proxy-Authorization of each request for a tunnel; `undefined`: it had none. */
  readonly tunnels: (string | undefined)[] = [];
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server, allows: (target: string) => boolean) {
    this.#server = server;
    this.url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    server.on('connect', (request, socket: Socket) => {
      if (!allows(request.url ?? '')) {
        socket.end('HTTP/1.1 407 Proxy Authentication Required\r\n\r\n');
        return;
      }
      this.tunnels.push(request.headers['proxy-authorization']);
      this.#tunnel(Number(request.url?.split(':').at(-1)), socket);
    });
  }

  /** @param allows - decides whether the proxy opens a tunnel to `host:port`. If not, it answers 407 */
  static async open(allows: (target: string) => boolean): Promise<ConnectProxy> {
    const server = createServer((_request, response) => response.writeHead(405).end());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new ConnectProxy(server, allows);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #tunnel(port: number, socket: Socket): void {
    const beyond = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      beyond.pipe(socket).pipe(beyond);
    });
    beyond.on('error', () => socket.destroy());
    socket.on('error', () => beyond.destroy());
    socket.on('close', () => {
      this.#sockets.delete(socket);
      // Without this, the connection to the target would keep the test's process alive.
      beyond.destroy();
    });
    this.#sockets.add(socket);
  }
}
