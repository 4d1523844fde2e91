/**
 * Shared by the scenarios of the generator: a cluster with the CRDs of External Secrets Operator (ESO), a real Vault,
 * and the real ESO on request.
 */
import type { Json } from '../../support/api.ts';
import { Keyferry, type KeyferryOptions } from '../../support/keyferry.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type ControlPlane, type ControlPlaneOptions, startControlPlane } from '../../servers/control-plane.ts';
import { type EsoVersion, installEsoCrds, startExternalSecrets } from '../../servers/external-secrets.ts';
import type { ServerProcess } from '../../servers/server-process.ts';
import { startVault, type VaultJson, type VaultServer } from '../../servers/vault.ts';

export const RESULT = 'keyferry.dev/generator';
/** The namespace of an object, if the test names none. */
export const HOME = 'default';
/** The store of an ExternalSecret, if the test names none. */
export const STORE = 'vault-backend';

export interface SceneOptions {
  /** Whether the real ESO runs. Default: true. If not, the test itself writes the status of ESO with `fail`. */
  readonly eso?: boolean;
  /**
   * Changes the text of ESO's CRDs before they are installed. `later`: the test installs the CRDs with `installCrds`,
   * and at first no store exists.
   */
  readonly crds?: ((yaml: string) => string) | 'later';
  /** The version of ESO's API that the test uses. Default: `v1`. */
  readonly version?: EsoVersion;
  /** Whether Vault writes an audit log. */
  readonly auditLog?: boolean;
  readonly plane?: ControlPlaneOptions;
}

/** An item of `spec.data`. */
export interface Item {
  readonly key: string;
  readonly property?: string;
  readonly [field: string]: unknown;
}

export interface ExternalSecretOptions {
  readonly namespace?: string;
  /** Annotations of the ExternalSecret. Default: `create: "true"`. */
  readonly annotations?: Readonly<Record<string, string>>;
  readonly store?: string;
  readonly storeKind?: string;
  /** More fields of the spec. */
  readonly spec?: Json;
}

export class GeneratorScene {
  readonly plane: ControlPlane;
  readonly vault: VaultServer;
  #version: EsoVersion;
  readonly #eso: ServerProcess | undefined;
  readonly #operators: Keyferry[] = [];

  private constructor(plane: ControlPlane, vault: VaultServer, version: EsoVersion, eso: ServerProcess | undefined) {
    this.plane = plane;
    this.vault = vault;
    this.#version = version;
    this.#eso = eso;
  }

  /** Opens a scene with a SecretStore in `HOME` that logs in with Vault's root token. */
  static async open(options: SceneOptions = {}): Promise<GeneratorScene> {
    await using resources = new AsyncDisposableStack();
    const { eso = true, crds, version = 'v1', auditLog = false } = options;
    const [plane, vault] = await Promise.all([
      startControlPlane({ controllerManager: false, ...options.plane }),
      startVault({ auditLog }),
    ]);
    resources.defer(() => plane.stop());
    resources.use(vault);
    if (crds !== 'later') await installEsoCrds(plane, crds, version);
    const scene = new GeneratorScene(plane, vault, version, eso ? await startExternalSecrets(plane) : undefined);
    await scene.token(HOME, vault.rootToken);
    if (crds !== 'later') await scene.store(STORE, {});
    // ESO waits before it retries an ExternalSecret whose store was not ready. So wait for the store first.
    if (eso && crds !== 'later') {
      const path = `/apis/external-secrets.io/${version}/namespaces/${HOME}/secretstores/${STORE}`;
      await waitFor(async () => (await scene.api.get(path)).status?.conditions?.[0]?.status === 'True', {
        message: 'the store to be ready',
      });
    }
    resources.move();
    return scene;
  }

  /** Installs or replaces the CRDs of ESO. Afterwards the test uses this version of the API. */
  async installCrds(change: (yaml: string) => string, version: EsoVersion): Promise<void> {
    await installEsoCrds(this.plane, change, version);
    this.#version = version;
  }

  async close(): Promise<void> {
    for (const operator of this.#operators) await operator.kill9();
    await this.#eso?.stop();
    await this.vault.stop();
    await this.plane.stop();
  }

  /** The version of ESO's API that the test uses. */
  get version(): EsoVersion {
    return this.#version;
  }

  get api(): ControlPlane['api'] {
    return this.plane.api;
  }

  /** The operator that was started last. */
  get operator(): Keyferry {
    const operator = this.#operators.at(-1);
    if (operator === undefined) throw new Error('no operator was started');
    return operator;
  }

  async start(options: Partial<KeyferryOptions> = {}): Promise<Keyferry> {
    const operator = await this.launch(options);
    await operator.ready();
    return operator;
  }

  /** Starts an operator without waiting until it is ready. */
  async launch(options: Partial<KeyferryOptions> = {}): Promise<Keyferry> {
    const args = ['--log-level=debug', ...(options.args ?? [])];
    const kubeconfig = this.plane.kubeconfigPath;
    const operator = await Keyferry.start({ kubeconfig, command: 'generator', ...options, args });
    this.#operators.push(operator);
    return operator;
  }

  /** Creates or replaces a Secret with a token of Vault. */
  async token(namespace: string, token: string, name = 'vault-token'): Promise<void> {
    const data = { 'vault-token': Buffer.from(token).toString('base64') };
    const path = `/api/v1/namespaces/${namespace}/secrets`;
    if ((await this.api.find(`${path}/${name}`)) === undefined) {
      await this.api.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, data });
    } else await this.api.patch(`${path}/${name}`, { data });
  }

  /** Creates a Vault token that has only this policy. */
  async limitedToken(name: string, hcl: string): Promise<string> {
    await this.vault.request('PUT', `sys/policies/acl/${name}`, { policy: hcl });
    const { auth } = await this.vault.request('POST', 'auth/token/create-orphan', { policies: [name], ttl: '1h' });
    return auth.client_token;
  }

  /**
   * Creates a SecretStore in `namespace`, or a ClusterSecretStore, with these fields in `spec.provider.vault` and in
   * `spec`.
   */
  async store(
    name: string,
    vault: Json,
    { namespace = HOME, kind = 'SecretStore', spec = {} }: Json = {},
  ): Promise<void> {
    await this.api.create({
      apiVersion: `external-secrets.io/${this.version}`,
      kind,
      metadata: { name, ...(kind === 'SecretStore' && { namespace }) },
      spec: {
        ...spec,
        provider: {
          vault: {
            server: this.vault.addr,
            path: 'secret',
            version: 'v2',
            auth: { tokenSecretRef: { name: 'vault-token', key: 'vault-token' } },
            ...vault,
          },
        },
      },
    });
  }

  async externalSecret(name: string, items: readonly Item[], options: ExternalSecretOptions = {}): Promise<void> {
    const { namespace = HOME, annotations = { create: 'true' }, store = STORE, storeKind: kind, spec = {} } = options;
    await this.api.create({
      apiVersion: `external-secrets.io/${this.version}`,
      kind: 'ExternalSecret',
      metadata: { name, namespace, annotations },
      spec: {
        refreshInterval: '1s',
        secretStoreRef: { name: store, ...(kind !== undefined && { kind }) },
        target: { name },
        data: items.map(({ sourceRef, ...remoteRef }, index) => ({
          secretKey: `key-${index}`,
          remoteRef,
          ...(sourceRef !== undefined && { sourceRef }),
        })),
        ...spec,
      },
    });
  }

  path(name: string, namespace = HOME): string {
    return `/apis/external-secrets.io/${this.version}/namespaces/${namespace}/externalsecrets/${name}`;
  }

  /**
   * Writes the status that ESO writes: it cannot read the values of the ExternalSecret, or with `isReady` it has read
   * them.
   */
  async fail(name: string, namespace = HOME, isReady = false): Promise<void> {
    const condition = isReady
      ? { type: 'Ready', status: 'True', reason: 'SecretSynced', message: 'secret synced' }
      : {
          type: 'Ready',
          status: 'False',
          reason: 'SecretSyncedError',
          message: 'could not get secret data from provider',
        };
    await this.api.patch(`${this.path(name, namespace)}/status`, { status: { conditions: [condition] } });
  }

  async condition(name: string, type = 'Ready', namespace = HOME): Promise<Json> {
    const { status } = await this.api.get(this.path(name, namespace));
    return status?.conditions?.find((one: Json) => one.type === type);
  }

  /** Reads the last result of an ExternalSecret from its annotation. @returns `undefined`: there is no result yet */
  async result(name: string, namespace = HOME): Promise<Json> {
    const { metadata } = await this.api.get(this.path(name, namespace));
    const text = metadata.annotations?.[RESULT];
    return text === undefined ? undefined : JSON.parse(text);
  }

  /** Waits until ESO has made the Secret. @returns its data, decoded */
  async synced(name: string, namespace = HOME): Promise<Record<string, string>> {
    await waitFor(async () => (await this.condition(name, 'Ready', namespace))?.status === 'True', {
      message: () => `ExternalSecret ${namespace}/${name} to be ready\n${this.tail()}`,
    });
    const { data } = await this.api.get(`/api/v1/namespaces/${namespace}/secrets/${name}`);
    return Object.fromEntries(
      Object.entries(data as Record<string, string>).map(([key, value]) => [
        key,
        Buffer.from(value, 'base64').toString(),
      ]),
    );
  }

  /** Waits until an ExternalSecret has a result with this reason. @returns the result */
  async says(name: string, reason: string, message?: RegExp, namespace = HOME): Promise<Json> {
    let last: Json;
    return await waitFor(
      async () => {
        last = await this.result(name, namespace);
        return last?.reason === reason && (message === undefined || message.test(last.message)) && last;
      },
      { message: () => `the result ${reason} ${message} of ${name}, not ${JSON.stringify(last)}\n${this.tail()}` },
    );
  }

  /** Waits until an ExternalSecret has a result that is a failure. @returns the result */
  async saysAny(name: string): Promise<Json> {
    return await waitFor(
      async () => {
        const result = await this.result(name);
        return result !== undefined && result.reason !== 'Success' && result.reason !== 'Exists' && result;
      },
      { message: () => `a failure of ${name}\n${this.tail()}` },
    );
  }

  /** An entry of KV 2 with its metadata; `undefined` if it does not exist. */
  async entry(path: string): Promise<VaultJson> {
    const { status, body } = await this.vault.raw('GET', path);
    return status === 200 ? body.data : undefined;
  }

  /** The events about an ExternalSecret. */
  async events(name: string, namespace = HOME): Promise<Json[]> {
    const events = await this.api.list(`/api/v1/namespaces/${namespace}/events`);
    return events.filter((event) => event.involvedObject?.name === name && /keyferry/.test(event.source?.component));
  }

  tail(): string {
    return this.#operators.map((operator) => operator.output.split('\n').slice(-12).join('\n')).join('\n');
  }
}
