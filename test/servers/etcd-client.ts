/** A small client of etcd, with the few calls that tests need. It uses etcd's JSON gateway. */
import { HttpClient } from '../support/http.ts';

/** A key and its value, both in base64, as in etcd's JSON. */
export interface Entry {
  readonly key: string;
  readonly value: string;
}

/** The largest number of operations in one transaction of etcd. */
const OPERATIONS = 128;
/** Time limit of a call, ms. It is long, because a busy machine delays etcd. */
const TIMEOUT_MS = 60_000;

export class EtcdClient implements Disposable {
  /** `fetch` is not used: each test process would have to load it for a few calls. */
  readonly #http: HttpClient;

  constructor(port: number) {
    this.#http = new HttpClient(`http://127.0.0.1:${port}`);
  }

  /** All entries whose keys begin with this text. @param prefix must end with `/` */
  async list(prefix: string): Promise<Entry[]> {
    // The end of a range does not belong to it. `0` is the character after `/`.
    const range = { key: base64(prefix), range_end: base64(`${prefix.slice(0, -1)}0`) };
    const { kvs = [] } = (await this.#send('range', range)) as { kvs?: readonly Entry[] };
    return kvs.map(({ key, value }) => ({ key, value }));
  }

  async put(entries: readonly Entry[]): Promise<void> {
    await this.#apply(entries.map(({ key, value }) => ({ requestPut: { key, value } })));
  }

  /** Deletes these keys. @param keys - in base64 */
  async delete(keys: readonly string[]): Promise<void> {
    await this.#apply(keys.map((key) => ({ requestDeleteRange: { key } })));
  }

  [Symbol.dispose](): void {
    this.#http.close();
  }

  async #apply(operations: readonly object[]): Promise<void> {
    for (let from = 0; from < operations.length; from += OPERATIONS) {
      await this.#send('txn', { success: operations.slice(from, from + OPERATIONS) });
    }
  }

  async #send(call: 'range' | 'txn', body: unknown): Promise<unknown> {
    const answer = await this.#http.send(`/v3/kv/${call}`, {
      method: 'POST',
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (answer.status !== 200) throw new Error(`etcd answered ${call} with ${answer.status}: ${answer.text}`);
    return JSON.parse(answer.text);
  }
}

/** An entry's key as plain text. */
export function keyText({ key }: Pick<Entry, 'key'>): string {
  return Buffer.from(key, 'base64').toString();
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
