/**
 * A stand-in for k8s-replicator v1.3.0, for tests of two controllers on one cluster. It copies a source's data to the
 * targets in `replicate-to`, which must name a namespace, and into objects with `replicate-from`. It skips a target
 * that records the source's version, or that replicate-once has frozen. It records the annotations of the original. As
 * in the original, each write is a PUT of the whole object at the resourceVersion that was read, and decisions come
 * from the watch cache, not from the live object.
 *
 * States: watching → stopped. It handles one event at a time.
 */
import { type Json, type TestApi, TestApiError } from '../../support/api.ts';
import type { Watcher } from '../../support/watcher.ts';

const PREFIX = 'k8s-replicator/';

export class FakeReplicator implements AsyncDisposable {
  readonly #api: TestApi;
  readonly #objects = new Map<string, Json>();
  #watch: Watcher | undefined;
  #work: Promise<void> = Promise.resolve();
  #stopped = false;
  /** The number of writes that the server accepted. */
  writes = 0;

  private constructor(api: TestApi) {
    this.#api = api;
  }

  static async start(api: TestApi): Promise<FakeReplicator> {
    const fake = new FakeReplicator(api);
    fake.#watch = await api.watch('/api/v1/secrets', ({ type, object }) => {
      if (type === 'GAP') return;
      const key = `${object.metadata.namespace}/${object.metadata.name}`;
      if (type === 'DELETED') fake.#objects.delete(key);
      else fake.#objects.set(key, object);
      fake.#work = fake.#work.then(() => fake.#look(key));
    });
    // The watch begins here. Objects that exist already are handled like events, as the original does at its start.
    for (const object of await api.list('/api/v1/secrets')) {
      const key = `${object.metadata.namespace}/${object.metadata.name}`;
      if (!fake.#objects.has(key)) fake.#objects.set(key, object);
      fake.#work = fake.#work.then(() => fake.#look(key));
    }
    return fake;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    await this.#watch?.stop();
    await this.#work;
  }

  /** Handles a changed object: a source that pushes, an object that pulls, or a copy. */
  async #look(key: string): Promise<void> {
    if (this.#stopped) return;
    const object = this.#objects.get(key);
    if (object === undefined) return;
    for (const target of pushedTo(object)) await this.#copy(key, target, true);
    const by = noted(object, 'replicated-by');
    if (by !== undefined && pushedTo(this.#objects.get(by)).includes(key)) await this.#copy(by, key, true);
    const from = noted(object, 'replicate-from');
    if (from !== undefined) await this.#copy(from, key, false);
    for (const [other, { metadata }] of this.#objects) {
      if (metadata.annotations?.[`${PREFIX}replicate-from`] === key) await this.#copy(key, other, false);
    }
  }

  async #copy(from: string, to: string, pushed: boolean): Promise<void> {
    const [source, target] = [this.#objects.get(from), this.#objects.get(to)];
    if (source === undefined || (!pushed && noted(source, 'replication-allowed') !== 'true')) return;
    const version = source.metadata.resourceVersion;
    if (target !== undefined && noted(target, 'replicated-from-version') === version) return;
    if (target !== undefined && pushed && noted(target, 'replicated-by') !== from) return;
    if (target !== undefined && isFrozen(source, target)) return;
    const [namespace = '', name = ''] = to.split('/');
    const annotations = {
      ...target?.metadata.annotations,
      [`${PREFIX}replicated-at`]: `${new Date().toISOString().slice(0, 19)}Z`,
      [`${PREFIX}replicated-from-version`]: version,
      ...taken(source, 'replicate-once-version'),
      ...(pushed ? taken(source, 'replicate-once') : {}),
      ...(pushed
        ? { [`${PREFIX}replicated-by`]: from }
        : { [`${PREFIX}replicated-from-origin`]: from, [`${PREFIX}replicated-from-allowed`]: '.*' }),
    };
    const path = `/api/v1/namespaces/${namespace}/secrets`;
    try {
      if (target === undefined) {
        const metadata = { namespace, name, annotations };
        await this.#api.create({ apiVersion: 'v1', kind: 'Secret', type: source.type, metadata, data: source.data });
      } else {
        const metadata = { ...target.metadata, annotations };
        await this.#api.replace(`${path}/${name}`, { ...target, metadata, data: source.data });
      }
      this.writes += 1;
    } catch (error) {
      // After a conflict, or if the object is gone, the next event starts another try.
      if (!(error instanceof TestApiError) || ![404, 409].includes(error.status)) throw error;
    }
  }
}

function pushedTo(source: Json): string[] {
  return source === undefined
    ? []
    : (noted(source, 'replicate-to') ?? '').split(',').filter((item) => item.includes('/'));
}

function isFrozen(source: Json, target: Json): boolean {
  if (noted(target, 'replicated-from-version') === undefined) return false;
  if (noted(source, 'replicate-once') !== 'true' && noted(target, 'replicate-once') !== 'true') return false;
  const version = noted(source, 'replicate-once-version');
  return version === undefined || version === noted(target, 'replicate-once-version');
}

/** The annotation that the copy takes from the source; empty if the source does not have it. */
function taken(source: Json, name: string): Record<string, string> {
  const value = noted(source, name);
  return value === undefined ? {} : { [`${PREFIX}${name}`]: value };
}

function noted(object: Json, name: string): string | undefined {
  return object.metadata.annotations?.[`${PREFIX}${name}`];
}
