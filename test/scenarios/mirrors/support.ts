/** Shared by the scenarios of SecretMirrors: a cluster with the CRD, an operator, and helpers for the actions of users. */
import { startControlPlane } from '../../servers/control-plane.ts';
import type { ControlPlane, ControlPlaneOptions } from '../../servers/control-plane.ts';
import type { Json, TestApi } from '../../support/api.ts';
import { assertNoCanaries, makeCanary } from '../../support/canary.ts';
import { Keyferry } from '../../support/keyferry.ts';
import type { KeyferryOptions } from '../../support/keyferry.ts';
import { PATIENCE_MS, waitFor } from '../../support/wait-for.ts';
import { within } from '../../support/yardstick.ts';

export const OWNED_BY = 'mirrors.kts.studio/owned-by';
export const PARENT_VERSION = 'mirrors.kts.studio/parent-version';
export const SOURCE_TYPE = 'mirrors.kts.studio/source-type';
export const LAST_SYNC_AT = 'mirrors.kts.studio/last-sync-at';
export const FINALIZER = 'mirrors.kts.studio/finalizer';
export const COPY_LABEL = 'keyferry.dev/copy';
export const PLACE = 'keyferry.dev/target';
export const RETAIN = 'keyferry.dev/retain';
/** The namespace of sources and mirrors, unless a test names another one. */
export const HOME = 'default';

type Data = Readonly<Record<string, string>>;

export const secretPath = (namespace: string, name: string): string =>
  `/api/v1/namespaces/${namespace}/secrets/${name}`;
export const mirrorPath = (name: string, namespace = HOME): string =>
  `/apis/mirrors.kts.studio/v1alpha2/namespaces/${namespace}/secretmirrors/${name}`;

export class MirrorScene {
  readonly plane: ControlPlane;
  readonly api: TestApi;
  /** Text that every value of a source starts with. A test fails if it appears in a log. */
  readonly canary = makeCanary('source');
  readonly #operators: Keyferry[] = [];

  constructor(plane: ControlPlane) {
    this.plane = plane;
    this.api = plane.api;
  }

  /** Starts a control plane with the CRD. No operator runs yet. */
  static async open(options: ControlPlaneOptions = {}): Promise<MirrorScene> {
    return new MirrorScene(await startControlPlane({ crds: true, ...options }));
  }

  /** Starts an operator and waits until it is ready. */
  async operator(options: Partial<KeyferryOptions> = {}): Promise<Keyferry> {
    const keyferry = await Keyferry.start({ kubeconfig: this.plane.kubeconfigPath, ...options });
    this.#operators.push(keyferry);
    await keyferry.ready();
    return keyferry;
  }

  /** All operators, in the order of their start. */
  get operators(): readonly Keyferry[] {
    return this.#operators;
  }

  /** The last lines of the operator's log, for messages of failed tests. */
  tail(): string {
    return (this.#operators.at(-1)?.output ?? '').trimEnd().split('\n').slice(-12).join('\n');
  }

  /** Checks that the operators leaked no canary, then stops all of them. */
  async close(): Promise<void> {
    try {
      await this.assertNothingLeaked();
    } finally {
      for (const operator of this.#operators) await operator.kill9();
      await this.plane.stop();
    }
  }

  async assertNothingLeaked(): Promise<void> {
    const texts: Record<string, string> = {};
    for (const [index, operator] of this.#operators.entries()) {
      texts[`output of operator ${index}`] = operator.output;
      if (operator.running) texts[`metrics of operator ${index}`] = await operator.metrics();
    }
    texts['events'] = JSON.stringify(await this.api.list('/api/v1/events'));
    texts['mirrors'] = JSON.stringify(await this.api.list('/apis/mirrors.kts.studio/v1alpha2/secretmirrors'));
    const copies = await this.api.list('/api/v1/secrets', { labelSelector: COPY_LABEL });
    texts['metadata of copies'] = JSON.stringify(copies.map(({ metadata }) => metadata));
    assertNoCanaries(texts, { source: this.canary });
  }

  /** A value with the canary, encoded for the field `data` of a Secret. */
  value(text: string): string {
    return Buffer.from(`${this.canary}${text}`).toString('base64');
  }

  data(values: Data): Record<string, string> {
    return Object.fromEntries(Object.entries(values).map(([key, text]) => [key, this.value(text)]));
  }

  async namespaces(...names: readonly string[]): Promise<void> {
    await this.api.createNamespaces(names);
  }

  /** Creates a Secret whose values start with the canary. `more` can set any field, `metadata` and `data` included. */
  async secret(namespace: string, name: string, values: Data, more: Json = {}): Promise<Json> {
    return await this.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      data: this.data(values),
      ...more,
      metadata: { ...more.metadata, namespace, name },
    });
  }

  /** Replaces the data of a Secret. */
  async change(namespace: string, name: string, values: Data): Promise<Json> {
    return await this.api.patch(
      secretPath(namespace, name),
      [{ op: 'add', path: '/data', value: this.data(values) }],
      'json',
    );
  }

  async mirror(name: string, namespaces: readonly string[], spec: Json = {}, namespace = HOME): Promise<Json> {
    return await this.api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { name, namespace },
      spec: { ...spec, destination: { namespaces, ...spec.destination } },
    });
  }

  find(namespace: string, name: string): Promise<Json> {
    return this.api.find(secretPath(namespace, name));
  }

  status(name: string, namespace = HOME): Promise<Json> {
    return this.api.get(mirrorPath(name, namespace)).then(({ status }) => status);
  }

  /**
   * Waits until the Secret is a copy that has exactly these values. @returns the copy
   * @param limitMs the longest time, ms on an idle machine; `undefined`: the limit of `waitFor`
   */
  async copied(namespace: string, name: string, values: Data, limitMs?: number): Promise<Json> {
    const wanted = this.data(values);
    let seen: Json;
    const look = async (): Promise<Json> => {
      seen = await this.find(namespace, name);
      if (seen?.metadata.annotations?.[OWNED_BY] === undefined) return false;
      return sameData(seen.data ?? {}, wanted) && seen;
    };
    const copy = `copy ${namespace}/${name}`;
    const message = (): string => `${copy}; keys there: ${Object.keys(seen?.data ?? {}).join(', ')}`;
    if (limitMs === undefined) return await waitFor(look, { message });
    return await within(limitMs, copy, () => waitFor(look, { timeoutMs: limitMs + PATIENCE_MS, message }));
  }

  async gone(...paths: readonly string[]): Promise<void> {
    for (const path of paths) {
      await waitFor(async () => (await this.api.find(path)) === undefined, { message: `${path} to be gone` });
    }
  }

  /** Waits until the condition Ready of a mirror has this reason (and message). @returns the status */
  async ready(
    name: string,
    reason: string,
    message: RegExp = /(?:)/,
    namespace = HOME,
    timeoutMs = PATIENCE_MS,
  ): Promise<Json> {
    let seen: Json;
    return await waitFor(
      async () => {
        seen = await this.api.get(mirrorPath(name, namespace));
        const condition = seen.status?.conditions?.find((one: Json) => one.type === 'Ready');
        return (
          condition?.reason === reason &&
          message.test(condition.message) &&
          seen.status.observedGeneration === seen.metadata.generation &&
          seen.status
        );
      },
      { timeoutMs, message: () => `${name} to be ${reason} ${message}; it is ${JSON.stringify(seen?.status)}` },
    );
  }

  async events(name: string, namespace = HOME): Promise<Json[]> {
    const fieldSelector = `involvedObject.kind=SecretMirror,involvedObject.name=${name}`;
    return await this.api.list(`/api/v1/namespaces/${namespace}/events`, { fieldSelector });
  }

  async event(name: string, reason: string, message: RegExp = /(?:)/, namespace?: string): Promise<Json> {
    let seen: Json[] = [];
    return await waitFor(
      async () => {
        seen = await this.events(name, namespace);
        return seen.find((one) => one.reason === reason && message.test(one.message));
      },
      {
        message: () =>
          `event ${reason} ${message}; there are ${seen.map((e) => `${e.reason} ${e.message}`).join('; ')}`,
      },
    );
  }
}

export function sameData(actual: Data, wanted: Data): boolean {
  const keys = Object.keys(wanted);
  return Object.keys(actual).length === keys.length && keys.every((key) => actual[key] === wanted[key]);
}

/** A merge patch for `metadata.annotations`. */
export const annotations = (values: Readonly<Record<string, string | null>>): Json => ({
  metadata: { annotations: values },
});
export const labels = (values: Readonly<Record<string, string | null>>): Json => ({ metadata: { labels: values } });
