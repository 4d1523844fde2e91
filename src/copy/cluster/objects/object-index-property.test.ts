/**
 * Tests the index with events in any order: users and Keyferry write, and three watches deliver the events with any
 * delay. The first watch selects by label. The second watch follows a name. The third watch receives all objects, and
 * keeps those with the label. Responses to Keyferry's writes arrive at any time, and lists are repeated. When all
 * events have arrived, the index has the same objects as the server, and has reported users' changes as not own.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { array, assert as check, asyncProperty, constantFrom, record } from 'fast-check';
import type { ObjectMeta } from '../../../kube/api.ts';
import { ManualClock } from '../../../../test/support/manual-clock.ts';
import { type RunningRequest, type ObjectFeed, ObjectIndex } from './object-index.ts';
import { asKey } from '../../../../test/support/keys.ts';

const NAMES = ['a', 'b', 'c'] as const;
/** The name that the second watch follows, whatever labels the object has. */
const FOLLOWED = 'a';

type Event =
  | { readonly type: 'upsert' | 'list' | 'remove'; readonly meta: ObjectMeta }
  | { readonly type: 'complete'; readonly version: string };

interface Watch {
  /** Whether the server sends this watch the events of an object. */
  readonly selects: (meta: ObjectMeta) => boolean;
  /** Whether this watch keeps an object that it received. */
  readonly keeps: (meta: ObjectMeta) => boolean;
  readonly feed: ObjectFeed;
  readonly queue: Event[];
  /** The keys (`namespace/name`) that the list under way has brought and this watch kept. */
  readonly listed: Set<string>;
}

const isCopy = (meta: ObjectMeta): boolean => meta.labels?.['copy'] !== undefined;
const isFollowed = (meta: ObjectMeta): boolean => meta.name === FOLLOWED;

class World {
  readonly objects = new Map<string, ObjectMeta>();
  readonly index: ObjectIndex;
  readonly clock = new ManualClock();
  /** For each object name: the version in the last change that the index reported. */
  readonly reported = new Map<string, string>();
  /** For each object name: the version in the last change that the index reported as not own. */
  readonly foreign = new Map<string, string>();
  readonly #ours = new Set<string>();
  readonly #watches: readonly Watch[];
  readonly #responses: { readonly request: RunningRequest; readonly meta: ObjectMeta }[] = [];
  #version = 10;
  #uid = 0;

  constructor() {
    this.index = new ObjectIndex(
      'c',
      'Secret',
      (key, before, after, own) => {
        const name = key.slice(key.lastIndexOf('/') + 1);
        const known = this.reported.get(name);
        assert.equal(known, before?.resourceVersion, 'each change starts from the version that was reported before');
        if (own !== true && after !== undefined) this.foreign.set(name, after.resourceVersion);
        if (after === undefined) this.reported.delete(name);
        else this.reported.set(name, after.resourceVersion);
      },
      { clock: this.clock, onRollback: (key) => assert.fail(`${key} is taken for a rollback`) },
    );
    const everything = (): boolean => true;
    this.#watches = [
      { selects: isCopy, keeps: everything, feed: this.index.feed(), queue: [], listed: new Set() },
      { selects: isFollowed, keeps: everything, feed: this.index.feed(), queue: [], listed: new Set() },
      { selects: everything, keeps: isCopy, feed: this.index.feed(isCopy), queue: [], listed: new Set() },
    ];
  }

  /** Creates or replaces an object, and queues the events that an API server would send. */
  put(name: string, labelled: boolean): ObjectMeta {
    const before = this.objects.get(name);
    this.#version += 1;
    const meta: ObjectMeta = {
      name,
      namespace: 'n',
      uid: before?.uid ?? `u${(this.#uid += 1)}`,
      resourceVersion: String(this.#version),
      creationTimestamp: '2026-01-01T00:00:00Z',
      ...(labelled ? { labels: { copy: 'yes' } } : {}),
    };
    this.objects.set(name, meta);
    this.#sendEvents(before, meta);
    return meta;
  }

  delete(name: string): void {
    const before = this.objects.get(name);
    if (before === undefined) return;
    this.#version += 1;
    this.objects.delete(name);
    this.#sendEvents(before, undefined);
  }

  /** Keyferry writes an object. The server has it at once, but the response arrives later. */
  write(name: string): void {
    const request = this.index.beginRequest(asKey(`c:Secret/n/${name}`), true);
    const meta = this.put(name, true);
    this.#ours.add(meta.resourceVersion);
    this.#responses.push({ request, meta });
  }

  respond(): void {
    const next = this.#responses.shift();
    next?.request.storeResponse(next.meta);
    next?.request[Symbol.dispose]();
  }

  deliver(watch: number): boolean {
    const { queue, feed, listed } = this.#watches[watch] ?? assert.fail();
    const event = queue.shift();
    if (event === undefined) return false;
    if (event.type === 'complete') {
      feed.sink.prune(listed, event.version);
    } else if (event.type === 'remove') {
      feed.sink.remove({ metadata: event.meta });
    } else if (feed.sink.upsert({ metadata: event.meta })) {
      listed.add(`n/${event.meta.name}`);
    }
    return true;
  }

  /** Drops the events that a watch has not delivered yet, and starts a list of the existing objects for it. */
  relist(watch: number): void {
    const { queue, listed, selects } = this.#watches[watch] ?? assert.fail();
    queue.length = 0;
    listed.clear();
    for (const meta of this.objects.values()) if (selects(meta)) queue.push({ type: 'list', meta });
    queue.push({ type: 'complete', version: String(this.#version) });
  }

  async settle(): Promise<void> {
    for (const watch of this.#watches.keys()) while (this.deliver(watch));
    while (this.#responses.length > 0) this.respond();
    await this.clock.advance(60_000);
  }

  /** The objects that the index must have in the end, with their versions. */
  get visible(): Record<string, string> {
    const kept = [...this.objects.values()].filter((meta) =>
      this.#watches.some(({ selects, keeps }) => selects(meta) && keeps(meta)),
    );
    return Object.fromEntries(kept.map(({ name, resourceVersion }) => [name, resourceVersion]));
  }

  /** The objects in the index whose last change is one of a user, with their versions. */
  get changedByUsers(): [string, string][] {
    return Object.entries(this.visible).filter(([, version]) => !this.#ours.has(version));
  }

  #sendEvents(before: ObjectMeta | undefined, after: ObjectMeta | undefined): void {
    for (const { selects, queue } of this.#watches) {
      if (after !== undefined && selects(after)) queue.push({ type: 'upsert', meta: after });
      else if (before !== undefined && selects(before)) {
        queue.push({ type: 'remove', meta: { ...before, resourceVersion: String(this.#version) } });
      }
    }
  }
}

test('property: when all events have arrived, the index has the same objects as the server, and has reported their changes', async () => {
  const step = record({
    do: constantFrom('label', 'unlabel', 'delete', 'write', 'answer', 'deliver', 'deliver', 'deliver', 'relist'),
    name: constantFrom(...NAMES),
    watch: constantFrom(0, 1, 2),
  });
  await check(
    asyncProperty(array(step, { maxLength: 60, size: 'max' }), async (steps) => {
      const world = new World();
      for (const { do: what, name, watch } of steps) {
        if (what === 'label' || what === 'unlabel') world.put(name, what === 'label');
        else if (what === 'delete') world.delete(name);
        else if (what === 'write') world.write(name);
        else if (what === 'answer') world.respond();
        else if (what === 'deliver') world.deliver(watch);
        else world.relist(watch);
      }
      await world.settle();
      const held = NAMES.flatMap((name) => {
        const version = world.index.get('n', name)?.resourceVersion;
        return version === undefined ? [] : [[name, version] as const];
      });
      assert.deepEqual(Object.fromEntries(held), world.visible);
      assert.deepEqual(Object.fromEntries(world.reported), world.visible);
      for (const [name, version] of world.changedByUsers) assert.equal(world.foreign.get(name), version);
      assert.equal([...world.index.keys()].length, held.length);
      assert.equal(world.clock.pendingTimers, 0);
    }),
    { numRuns: 600 },
  );
});
