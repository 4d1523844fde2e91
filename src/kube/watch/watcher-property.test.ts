/** Tests a watcher with random changes and broken streams: in the end its sink has the same objects as the server. */
import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import { after, test } from 'node:test';
import { array, assert as check, asyncProperty, constantFrom, oneof, record, type Arbitrary } from 'fast-check';

import { HeldObjects } from '../../../test/support/held-objects.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { bookmark, line, list, object, status } from '../../../test/support/watch-lines.ts';
import { connect, listen } from '../../../test/support/loopback.ts';
import { Watcher } from './watcher.ts';

/** A change of an object, or an event of the connection or the server. */
type Step =
  | { readonly do: 'put' | 'remove'; readonly name: string }
  | { readonly do: 'cut' | 'end' | 'tear' | 'forget' | 'bookmark' | 'turn' };

/** An API server as a watch sees it: the objects, their changes since some version, and the open streams. */
class World {
  readonly objects = new Map<string, string>();
  readonly #streams = new Set<ServerResponse>();
  #events: { readonly version: number; readonly line: string }[] = [];
  #version = 1;
  #knownFrom = 1;

  apply(step: Step): void {
    switch (step.do) {
      case 'put':
      case 'remove': {
        const key = `n/${step.name}`;
        if (step.do === 'remove' && !this.objects.has(key)) return;
        this.#version += 1;
        const type = step.do === 'remove' ? 'DELETED' : this.objects.has(key) ? 'MODIFIED' : 'ADDED';
        if (step.do === 'remove') this.objects.delete(key);
        else this.objects.set(key, String(this.#version));
        const text = line(type, object(step.name, this.#version));
        this.#events.push({ version: this.#version, line: text });
        for (const stream of this.#streams) stream.write(text);
        return;
      }
      case 'bookmark':
        for (const stream of this.#streams) stream.write(bookmark(this.#version));
        return;
      case 'forget':
        this.#events = [];
        this.#knownFrom = this.#version;
        return;
      case 'tear':
        for (const stream of this.#streams) stream.write('{"type":"ADD');
        this.#end((stream) => stream.end());
        return;
      case 'end':
        this.#end((stream) => stream.end());
        return;
      case 'cut':
        this.#end((stream) => stream.destroy());
        return;
      case 'turn':
        return;
      default:
        step satisfies never;
    }
  }

  answer(query: URLSearchParams, response: ServerResponse): void {
    if (query.get('watch') === null) {
      const items = [...this.objects].map(([key, version]) => object(key.slice(2), Number(version)));
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(list(this.#version, items));
      return;
    }
    const from = Number(query.get('resourceVersion'));
    if (from < this.#knownFrom) {
      response.end(line('ERROR', status(410, 'Expired')));
      return;
    }
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    for (const event of this.#events) if (event.version > from) response.write(event.line);
    this.#streams.add(response);
    response.once('close', () => this.#streams.delete(response));
  }

  #end(how: (stream: ServerResponse) => unknown): void {
    for (const stream of this.#streams) how(stream);
    this.#streams.clear();
  }
}

let present: World | undefined;
const server = createServer((request, response) => {
  assert.ok(present);
  present.answer(new URL(request.url ?? '/', 'http://server').searchParams, response);
});
const api = connect({ after }, await listen({ after }, server));

test('property: after any changes and broken streams, the sink of a watcher has the same objects as the server', async () => {
  const steps: Arbitrary<Step> = oneof(
    {
      weight: 6,
      arbitrary: record({ do: constantFrom('put' as const), name: constantFrom('a', 'b', 'c', 'd') }),
    },
    {
      weight: 3,
      arbitrary: record({ do: constantFrom('remove' as const), name: constantFrom('a', 'b', 'c', 'd') }),
    },
    {
      weight: 3,
      arbitrary: record({
        do: constantFrom(
          'cut' as const,
          'end' as const,
          'tear' as const,
          'forget' as const,
          'bookmark' as const,
          'turn' as const,
        ),
      }),
    },
  );
  await check(
    asyncProperty(array(steps, { maxLength: 40, size: 'max' }), async (history) => {
      const world = new World();
      present = world;
      const held = new HeldObjects();
      const watcher = new Watcher({
        api,
        target: { collection: 'things', path: '/api/v1/things', metadataOnly: true },
        sink: held,
        reconnect: { baseMs: 1, maxMs: 2, stableMs: 10_000 },
      }).start();
      for (const step of history) {
        world.apply(step);
        if (step.do === 'turn' || step.do === 'cut') await new Promise((resolve) => setTimeout(resolve, 2));
      }
      await waitFor(
        () => {
          const [left, right] = [held.objects, world.objects];
          return left.size === right.size && [...right].every(([key, version]) => left.get(key) === version);
        },
        {
          intervalMs: 1,
          message: () => `${JSON.stringify([...world.objects])}; ${held.log.join(' · ')}`,
        },
      );
      await watcher.stop();
    }),
    { numRuns: 60 },
  );
});
