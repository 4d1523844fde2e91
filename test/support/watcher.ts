/**
 * A watch for tests. It records when each event arrived, so that tests can measure delays. It imports nothing from
 * `src/`.
 *
 * States: opening → open → (broken → opening)* → stopped. A broken watch continues from its last version. If the server
 * no longer has that version (status 410), the test gets an event of type `GAP`, and the watch continues from now on.
 */
import type { IncomingMessage } from 'node:http';

import type { HttpClient } from './http.ts';

export interface WatchEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'GAP';
  // oxlint-disable-next-line typescript/no-explicit-any -- a test reads arbitrary fields of arbitrary kinds
  readonly object: any;
  /** When the event's line had arrived, as `performance.now()`, ms. */
  readonly at: number;
}

export type WatchHandler = (event: WatchEvent) => void;

const RETRY_MS = 100;

export class Watcher {
  readonly #http: HttpClient;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #path: string;
  readonly #query: Readonly<Record<string, string>>;
  readonly #onEvent: WatchHandler;
  readonly #stopping = new AbortController();
  #resourceVersion = '';
  #done: Promise<void> = Promise.resolve();

  private constructor(
    http: HttpClient,
    headers: Readonly<Record<string, string>>,
    path: string,
    query: Readonly<Record<string, string>>,
    onEvent: WatchHandler,
  ) {
    this.#http = http;
    this.#headers = headers;
    this.#path = path;
    this.#query = query;
    this.#onEvent = onEvent;
    this.#resourceVersion = query['resourceVersion'] ?? '';
  }

  static async open(
    http: HttpClient,
    headers: Readonly<Record<string, string>>,
    path: string,
    query: Readonly<Record<string, string>>,
    onEvent: WatchHandler,
  ): Promise<Watcher> {
    const watcher = new Watcher(http, headers, path, query, onEvent);
    const first = await watcher.#connect();
    watcher.#done = watcher.#run(first);
    return watcher;
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#done;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #run(first: IncomingMessage): Promise<void> {
    const { signal } = this.#stopping;
    let response: IncomingMessage | undefined = first;
    while (!signal.aborted) {
      try {
        response ??= await this.#connect();
        await this.#read(response);
      } catch (error) {
        // After an error of the connection, the loop connects again. `stop` aborts the loop.
        void error;
        if (!signal.aborted) await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
      response = undefined;
    }
  }

  async #connect(): Promise<IncomingMessage> {
    if (this.#resourceVersion === '') this.#resourceVersion = await this.#now();
    const query = new URLSearchParams({
      ...this.#query,
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion: this.#resourceVersion,
    });
    const response = await this.#http.open(`${this.#path}?${query.toString()}`, {
      headers: this.#headers,
      timeoutMs: 0,
      signal: this.#stopping.signal,
    });
    if (response.statusCode === 200) return response;
    response.resume();
    if (response.statusCode === 410) this.#gap();
    throw new Error(`watch of ${this.#path}: ${response.statusCode}`);
  }

  async #now(): Promise<string> {
    const { status, text } = await this.#http.send(`${this.#path}?limit=1`, {
      headers: this.#headers,
      signal: this.#stopping.signal,
    });
    if (status !== 200) throw new Error(`list of ${this.#path}: ${status} ${text}`);
    return (JSON.parse(text) as { metadata: { resourceVersion: string } }).metadata.resourceVersion;
  }

  async #read(response: IncomingMessage): Promise<void> {
    let rest = '';
    response.setEncoding('utf8');
    for await (const chunk of response) {
      const at = performance.now();
      const lines = (rest + (chunk as string)).split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) this.#take(line, at);
    }
  }

  #take(line: string, at: number): void {
    const { type, object } = JSON.parse(line) as { type: string; object: WatchEvent['object'] };
    if (type === 'ERROR') {
      if (object.code === 410) this.#gap();
      throw new Error(`watch of ${this.#path}: ${object.message}`);
    }
    this.#resourceVersion = object.metadata.resourceVersion;
    if (type !== 'BOOKMARK') this.#onEvent({ type: type as WatchEvent['type'], object, at });
  }

  #gap(): void {
    this.#resourceVersion = '';
    this.#onEvent({ type: 'GAP', object: undefined, at: performance.now() });
  }
}
