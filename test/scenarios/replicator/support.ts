/** Shared by the scenarios of the replicator: a cluster, an operator, and actions of users on objects of any kind. */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';

import { startControlPlane } from '../../servers/control-plane.ts';
import type { ControlPlane, ControlPlaneOptions } from '../../servers/control-plane.ts';
import type { Json, TestApi } from '../../support/api.ts';
import { assertNoCanaries, makeCanary } from '../../support/canary.ts';
import { Keyferry } from '../../support/keyferry.ts';
import type { KeyferryOptions } from '../../support/keyferry.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';

/** Within this time, an effect that a test does not want would have begun, ms. */
export const SETTLE_MS = 1000;

type Values = Readonly<Record<string, string>>;

/** A kind of object that the tests replicate. */
export interface TestKind {
  readonly kind: string;
  readonly plural: string;
  /** The API group and version. Default: the core group. */
  readonly apiVersion?: string;
  readonly groupPath?: string;
  /** Encodes a value for the object's `data`. */
  readonly encode: (text: string) => string;
}

export const KINDS: readonly TestKind[] = [
  { kind: 'Secret', plural: 'secrets', encode: (text) => Buffer.from(text).toString('base64') },
  { kind: 'ConfigMap', plural: 'configmaps', encode: (text) => text },
];

/** The label that the replicator sets on objects that it creates. */
const COPIES = 'app.kubernetes.io/managed-by=k8s-replicator';

/** Annotations with their prefix: `annotate({ 'replicate-from': 'a/b' })`. */
export function annotate(values: Values, prefix = 'k8s-replicator'): Record<string, string> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [`${prefix}/${key}`, value]));
}

export class ReplicatorScene {
  readonly plane: ControlPlane;
  readonly api: TestApi;
  /** Text at the start of every value. A test fails if this text appears in a log. */
  readonly canary = makeCanary('replicated');
  readonly #operators: Keyferry[] = [];

  constructor(plane: ControlPlane) {
    this.plane = plane;
    this.api = plane.api;
  }

  static async open(options: ControlPlaneOptions = {}): Promise<ReplicatorScene> {
    return new ReplicatorScene(await startControlPlane(options));
  }

  /** Starts `keyferry replicator` and waits until it is ready. */
  async operator(args: readonly string[] = [], options: Partial<KeyferryOptions> = {}): Promise<Keyferry> {
    const keyferry = await this.started(args, options);
    await keyferry.ready();
    return keyferry;
  }

  /** Starts `keyferry replicator` without waiting until it is ready. */
  async started(args: readonly string[] = [], options: Partial<KeyferryOptions> = {}): Promise<Keyferry> {
    const keyferry = await Keyferry.start({
      kubeconfig: this.plane.kubeconfigPath,
      command: 'replicator',
      args,
      ...options,
    });
    this.#operators.push(keyferry);
    return keyferry;
  }

  async close(): Promise<void> {
    try {
      const texts: Record<string, string> = {};
      for (const [index, operator] of this.#operators.entries()) {
        texts[`output of operator ${index}`] = operator.output;
        if (!operator.running) continue;
        for (const path of ['/metrics', '/readyz?verbose', '/healthz?verbose']) {
          texts[`${path} of operator ${index}`] = (await operator.probe(path)).text;
        }
      }
      texts['events'] = JSON.stringify(await this.api.list('/api/v1/events'));
      for (const { plural } of KINDS) {
        const copies = await this.api.list(`/api/v1/${plural}`, { labelSelector: COPIES });
        texts[`metadata of ${plural}`] = JSON.stringify(copies.map(({ metadata }) => metadata));
      }
      assertNoCanaries(texts, { value: this.canary });
    } finally {
      for (const operator of this.#operators) await operator.kill9();
      await this.plane.stop();
    }
  }

  async namespaces(...names: readonly string[]): Promise<void> {
    await this.api.createNamespaces(names);
  }

  /** The actions of users on objects of this kind. */
  of(kind: TestKind): KindScene {
    return new KindScene(this, kind);
  }
}

/** Actions of users on objects of one kind. Objects are named `<namespace>/<name>`. */
export class KindScene {
  readonly #scene: ReplicatorScene;
  readonly kind: TestKind;

  constructor(scene: ReplicatorScene, kind: TestKind) {
    this.#scene = scene;
    this.kind = kind;
  }

  path(name: string): string {
    const [namespace, object] = name.split('/');
    return `${this.kind.groupPath ?? '/api/v1'}/namespaces/${namespace}/${this.kind.plural}/${object}`;
  }

  data(values: Values): Record<string, string> {
    return Object.fromEntries(
      Object.entries(values).map(([key, text]) => [key, this.kind.encode(this.#scene.canary + text)]),
    );
  }

  async create(name: string, values: Values, annotations: Values = {}, more: Json = {}): Promise<Json> {
    const [namespace, object] = name.split('/');
    return await this.#scene.api.create({
      apiVersion: this.kind.apiVersion ?? 'v1',
      kind: this.kind.kind,
      data: this.data(values),
      ...more,
      metadata: { ...more.metadata, namespace, name: object, annotations: annotate(annotations) },
    });
  }

  /** Changes annotations; `null` removes an annotation. */
  async annotate(name: string, annotations: Readonly<Record<string, string | null>>): Promise<Json> {
    return await this.#scene.api.patch(this.path(name), {
      metadata: { annotations: annotate(annotations as Values) },
    });
  }

  /** Replaces the data. */
  async change(name: string, values: Values): Promise<Json> {
    return await this.#scene.api.patch(
      this.path(name),
      [{ op: 'add', path: '/data', value: this.data(values) }],
      'json',
    );
  }

  find(name: string): Promise<Json> {
    return this.#scene.api.find(this.path(name));
  }

  delete(name: string): Promise<boolean> {
    return this.#scene.api.delete(this.path(name));
  }

  /** Waits until the object holds exactly these values. */
  async holds(name: string, values: Values): Promise<Json> {
    const wanted = this.data(values);
    let last: Json;
    return await waitFor(
      async () => {
        last = await this.find(name);
        return last !== undefined && isDeepStrictEqual(last.data ?? {}, wanted) ? last : undefined;
      },
      { message: () => `${this.kind.kind} ${name} to hold ${Object.keys(values).join(', ')}; ${describe(last)}` },
    );
  }

  /** Waits until `condition` is true for the object. */
  async becomes(name: string, condition: (object: Json) => boolean, what: string): Promise<Json> {
    let last: Json;
    return await waitFor(
      async () => {
        last = await this.find(name);
        return last !== undefined && condition(last) ? last : undefined;
      },
      { message: () => `${this.kind.kind} ${name} to be ${what}; ${describe(last)}` },
    );
  }

  async gone(name: string): Promise<void> {
    await waitFor(async () => (await this.find(name)) === undefined, {
      message: `${this.kind.kind} ${name} to be gone`,
    });
  }

  /** Waits for a Warning event with this reason on the object. */
  async warning(name: string, reason: string): Promise<Json> {
    const [namespace, object] = name.split('/');
    let seen: Json[] = [];
    return await waitFor(
      async () => {
        const events = await this.#scene.api.list(`/api/v1/namespaces/${namespace}/events`);
        seen = events.filter(({ involvedObject: about }) => about.name === object && about.kind === this.kind.kind);
        return seen.find((event) => event.reason === reason);
      },
      { message: () => `event ${reason} on ${name}; there: ${seen.map((e) => e.reason).join(', ')}` },
    );
  }

  async version(name: string): Promise<string | undefined> {
    return (await this.find(name))?.metadata.resourceVersion;
  }

  /** The resourceVersions of several objects, as one text that can be compared. */
  async versions(names: readonly string[]): Promise<string> {
    return JSON.stringify(await Promise.all(names.map((name) => this.version(name))));
  }

  /** Checks that no object is written or deleted for `SETTLE_MS`. All of them must be there. */
  async stayUnchanged(names: readonly string[], what: string): Promise<void> {
    const before = await this.versions(names);
    assert.ok(!before.includes('null'), `${what}: one of ${names.join()} is gone`);
    await staysTrue(async () => (await this.versions(names)) === before, SETTLE_MS, what);
  }
}

/** The value of an object's annotation, by the name without the prefix. */
export function annotation(object: Json, name: string, prefix = 'k8s-replicator'): string | undefined {
  return object.metadata.annotations?.[`${prefix}/${name}`];
}

function describe(object: Json): string {
  if (object === undefined) return 'it is not there';
  return `keys ${Object.keys(object.data ?? {}).join(', ')}, annotations ${JSON.stringify(object.metadata.annotations)}`;
}
