/**
 * The DNS server of a cluster. It runs in the test's process. It resolves the name of a Service to the addresses of its
 * ready Pods (as for a headless Service), because without kube-proxy the Service's own address does not work. So a
 * Service must use the same port as its Pods.
 */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';

import type { TestApi } from '../../support/api.ts';
import { API_SERVICE } from './server-args.ts';

const HEADER_BYTES = 12;
const TYPE_A = 1;
const TTL_SECONDS = 1;
/** Bits in the head of the response: it is a response, and this server is the authority for the name. */
const ANSWER = 0x8400;
const NO_SUCH_NAME = 3;
const SERVER_FAILURE = 2;

export class ClusterDns {
  readonly #socket: Socket;
  readonly #api: TestApi;
  #stopped = false;

  private constructor(socket: Socket, api: TestApi) {
    this.#socket = socket;
    this.#api = api;
    socket.on('message', (query, { address, port }) => void this.#serve(query, address, port));
  }

  static async start(address: string, api: TestApi): Promise<ClusterDns> {
    const socket = createSocket('udp4').unref();
    socket.bind({ address, port: 0, exclusive: true });
    await once(socket, 'listening');
    return new ClusterDns(socket, api);
  }

  get port(): number {
    return this.#socket.address().port;
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    const closed = once(this.#socket, 'close');
    this.#socket.close();
    await closed;
  }

  async #serve(query: Buffer, address: string, port: number): Promise<void> {
    const answer = await this.#answer(query);
    if (!this.#stopped) this.#socket.send(answer, port, address);
  }

  async #answer(query: Buffer): Promise<Buffer> {
    const { name, type, end } = readQuestion(query);
    try {
      const addresses = await this.#addressesOf(name);
      const code = addresses === undefined ? NO_SUCH_NAME : 0;
      return writeAnswer(query.subarray(0, end), code, type === TYPE_A ? (addresses ?? []) : []);
    } catch (error) {
      // The API server has ended, because the cluster is being stopped. The Pod gets the code for a failed server.
      void error;
      return writeAnswer(query.subarray(0, end), SERVER_FAILURE, []);
    }
  }

  /** The addresses for a name. @returns `undefined` if there is no Service with this name */
  async #addressesOf(name: string): Promise<string[] | undefined> {
    const [, service, namespace] = /^([^.]+)\.([^.]+)\.svc\.cluster\.local$/.exec(name) ?? [];
    if (service === undefined || namespace === undefined) return undefined;
    if ((await this.#api.find(`/api/v1/namespaces/${namespace}/services/${service}`)) === undefined) return undefined;
    if (`${namespace}/${service}` === 'default/kubernetes') return [API_SERVICE];
    const slices = await this.#api.list(`/apis/discovery.k8s.io/v1/namespaces/${namespace}/endpointslices`, {
      labelSelector: `kubernetes.io/service-name=${service}`,
    });
    const endpoints: { addresses: string[]; conditions: { ready?: boolean } }[] = slices.flatMap(
      (slice) => slice.endpoints ?? [],
    );
    return endpoints.filter(({ conditions }) => conditions.ready === true).flatMap(({ addresses }) => addresses);
  }
}

/** Reads the first question of a query. @returns name and type, and in `end` the position after the question */
function readQuestion(query: Buffer): { name: string; type: number; end: number } {
  const labels: string[] = [];
  let at = HEADER_BYTES;
  for (let length = query.readUInt8(at); length > 0; length = query.readUInt8(at)) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length).toLowerCase());
    at += 1 + length;
  }
  return { name: labels.join('.'), type: query.readUInt16BE(at + 1), end: at + 5 };
}

/** @param question - head and question of the query. The response repeats them */
function writeAnswer(question: Buffer, code: number, addresses: readonly string[]): Buffer {
  const head = Buffer.from(question);
  head.writeUInt16BE(ANSWER | code, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(addresses.length, 6);
  head.writeUInt32BE(0, 8);
  const records = addresses.map((address) => {
    const record = Buffer.alloc(16);
    // A pointer: the name of this record is the name in the question.
    record.writeUInt16BE(0xc000 | HEADER_BYTES, 0);
    record.writeUInt16BE(TYPE_A, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(TTL_SECONDS, 6);
    record.writeUInt16BE(4, 10);
    record.set(address.split('.').map(Number), 12);
    return record;
  });
  return Buffer.concat([head, ...records]);
}
