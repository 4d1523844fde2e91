/**
 * Two control planes, the second one behind a fault proxy, and an engine with a backend for each. Its only controller
 * copies each Secret of the first cluster that is in namespace `default` and has the label `copy`. The copies are in
 * namespace `copies` of both clusters.
 */
import { userCause } from '../../../src/copy/model/cause.ts';
import { systemClock } from '../../../src/runtime/clock.ts';
import { Cluster } from '../../../src/copy/cluster/cluster.ts';
import type { OnObjectChange } from '../../../src/copy/engine/backend.ts';
import type { Controller } from '../../../src/copy/engine/controller.ts';
import type { KeptRules } from '../../../src/copy/engine/life/rule-store.ts';
import { Manager } from '../../../src/copy/engine/manager.ts';
import type { Claimed, Outcome, Shape } from '../../../src/copy/model/claim.ts';
import { parseResourceKey, type ResourceKey, resourceKey, type RuleKey } from '../../../src/copy/model/keys.ts';
import { SECRET } from '../../../src/copy/model/kind.ts';
import { placeText, PLACE_ANNOTATION } from '../../../src/copy/model/observed.ts';
import type { RuleSet } from '../../../src/copy/model/rule-set.ts';
import type { KubeApi } from '../../../src/kube/api.ts';
import { loadKubeconfig } from '../../../src/kube/auth/kubeconfig.ts';
import { HttpKubeApi } from '../../../src/kube/http.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import type { FaultProxy } from '../../servers/fault-proxy.ts';
import { proxied } from '../../servers/proxied.ts';
import { waitFor } from '../../support/wait-for.ts';
import { nullLog } from '../../support/null-log.ts';
import { asKey } from '../../support/keys.ts';

const HOME = 'local';
export const AWAY = 'management';
const MARK = 'example.com/owner';
const LABEL = 'copied';
const NAMESPACE = 'copies';

export class TwoClusters implements AsyncDisposable {
  readonly home: ControlPlane;
  readonly away: ControlPlane;
  /** The proxy in front of the second cluster. */
  readonly proxy: FaultProxy;
  readonly manager: Manager;
  readonly backends: { readonly home: Cluster; readonly away: Cluster };
  /** The last outcome of each rule in each cluster. Keys: `cluster rule`. */
  readonly outcomes = new Map<string, Outcome>();
  readonly #apis: readonly HttpKubeApi[];
  readonly #stop = new AbortController();

  private constructor(home: ControlPlane, away: ControlPlane, proxy: FaultProxy, apis: [HttpKubeApi, HttpKubeApi]) {
    this.home = home;
    this.away = away;
    this.proxy = proxy;
    this.#apis = apis;
    const [local, other] = apis;
    this.manager = new Manager({
      home: HOME,
      onError: () => undefined,
      life: {
        api: local,
        clock: systemClock,
        log: nullLog,
        deletionTimeoutMs: 0,
        recordEvent: () => undefined,
        isOutdated: async () => await Promise.resolve(false),
      },
    });
    this.backends = { home: this.#addBackend(local), away: this.#addBackend(other) };
    this.manager.addController(this.#controller());
  }

  static async open(): Promise<TwoClusters> {
    const planes = [1, 2].map(
      async () => await startControlPlane({ controllerManager: false, users: [{ name: 'limited' }] }),
    );
    const [home, away] = (await Promise.all(planes)) as [ControlPlane, ControlPlane];
    const { proxy, kubeconfig } = await proxied(away, 'limited');
    const apis = [
      new HttpKubeApi(await loadKubeconfig({ path: home.kubeconfigPath, env: {} })),
      new HttpKubeApi(await loadKubeconfig({ path: kubeconfig, env: {}, cluster: AWAY })),
    ] as const;
    const scene = new TwoClusters(home, away, proxy, [...apis]);
    await Promise.all([home, away].map(async ({ api }) => await api.createNamespaces([NAMESPACE])));
    return scene;
  }

  /** Gives the client of the second cluster the permissions for Secrets in the namespace of the copies. */
  async permit(): Promise<void> {
    const metadata = { name: 'copies', namespace: NAMESPACE };
    const apiGroup = 'rbac.authorization.k8s.io';
    await this.away.api.apply([
      {
        apiVersion: `${apiGroup}/v1`,
        kind: 'Role',
        metadata,
        rules: [{ apiGroups: [''], resources: ['secrets'], verbs: ['*'] }],
      },
      {
        apiVersion: `${apiGroup}/v1`,
        kind: 'RoleBinding',
        metadata,
        roleRef: { apiGroup, kind: 'Role', name: 'copies' },
        subjects: [{ apiGroup, kind: 'User', name: 'limited' }],
      },
    ]);
  }

  /** Opens the watches and starts the loops of the engine. */
  async start(): Promise<void> {
    await this.manager.open(this.#stop.signal);
    await this.manager.start(this.#stop.signal);
  }

  async createSource(name: string, text: string): Promise<void> {
    const metadata = { name, namespace: 'default', labels: { copy: 'true' } };
    await this.home.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: { text } });
  }

  async changeSource(name: string, text: string): Promise<void> {
    await this.home.api.patch(`/api/v1/namespaces/default/secrets/${name}`, { stringData: { text } });
  }

  async copied(plane: ControlPlane, name: string, text: string): Promise<void> {
    await waitFor(async () => (await this.copy(plane, name)) === text, {
      message: `the copy of ${name} to be ${text}`,
    });
  }

  /** The value in a copy, as text; `undefined` if the copy does not exist. */
  async copy(plane: ControlPlane, name: string): Promise<string | undefined> {
    const copy = await plane.api.find(`/api/v1/namespaces/${NAMESPACE}/secrets/${name}`);
    return copy === undefined ? undefined : Buffer.from(copy.data.text, 'base64').toString();
  }

  /** Waits until the last outcome of a rule in the second cluster has this reason. */
  async reason(name: string, reason: string): Promise<void> {
    await waitFor(() => this.outcomes.get(`${AWAY} ${name}`)?.reason === reason, {
      message: () => `${reason} of ${name}, it has ${this.outcomes.get(`${AWAY} ${name}`)?.reason}`,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.manager.drain(0);
    await this.manager.stop(1000);
    await Promise.all(this.#apis.map(async (api) => await api[Symbol.asyncDispose]()));
    await this.proxy.stop();
    await Promise.all([this.home.stop(), this.away.stop()]);
  }

  #addBackend(api: KubeApi): Cluster {
    const { manager } = this;
    return manager.engine.backends.add(
      new Cluster({
        api,
        isHome: api.cluster === HOME,
        engine: manager.engine,
        kinds: [SECRET],
        concurrency: 4,
        clock: systemClock,
        idleLimitMs: 90_000,
        isRead: (annotation) => annotation === MARK,
        onRollback: () => undefined,
        onTrouble: () => undefined,
        onWrite: () => undefined,
      }),
    );
  }

  #controller(): Controller {
    const { engine } = this.manager;
    const { home, away } = this.backends;
    const [sources, copies] = [home.store(SECRET).index.feed(), home.store(SECRET).index.feed()];
    return {
      rules: this.#rules(),
      store: this.#store(),
      kindOf: () => SECRET,
      report: ({ key, ...facts }) => {
        if (facts.rule === undefined) return undefined;
        for (const { target, outcome } of facts.claims)
          this.outcomes.set(`${parseResourceKey(target).cluster} ${nameOf(key)}`, outcome);
        return undefined;
      },
      open: () => {
        const objectChanged: OnObjectChange = (key) => {
          const { cluster, namespace, name } = parseResourceKey(key);
          if (cluster === HOME && namespace === 'default') engine.enqueueRule(asKey(`copier:default/${name}`));
        };
        engine.onObjects({ objectChanged });
        const secrets = { collection: 'secrets', path: '/api/v1/secrets', metadataOnly: true };
        home.watch({ ...secrets, scope: 'sources', labelSelector: 'copy' }, sources.sink);
        home.watch({ ...secrets, scope: 'copies', labelSelector: LABEL }, copies.sink);
        away.watch(
          { ...secrets, scope: 'copies', path: `/api/v1/namespaces/${NAMESPACE}/secrets` },
          away.store(SECRET).index.feed().sink,
        );
      },
    };
  }

  #store(): KeptRules {
    const { index } = this.backends.home.store(SECRET);
    const nothing = (): void => undefined;
    return {
      get: (rule) => {
        const found = index.get('default', nameOf(rule));
        if (found === undefined) return undefined;
        const { uid, resourceVersion } = found;
        return { metadata: { name: nameOf(rule), namespace: 'default', uid, resourceVersion, creationTimestamp: '' } };
      },
      version: (rule) => index.get('default', nameOf(rule))?.resourceVersion,
      versionOf: ({ metadata }) => metadata.resourceVersion,
      storeResponse: nothing,
      end: nothing,
      onSameVersion: nothing,
    };
  }

  #rules(): RuleSet {
    const { index } = this.backends.home.store(SECRET);
    return {
      name: 'copier',
      evaluate(rule) {
        const name = nameOf(rule);
        const found = index.get('default', name);
        if (found === undefined) return undefined;
        const source = resourceKey(HOME, 'Secret', 'default', name);
        const owner = { key: rule, title: rule, rank: found.uid };
        const claims = [HOME, AWAY].map((cluster): Claimed => {
          const target = resourceKey(cluster, 'Secret', NAMESPACE, name);
          return { target, claim: { owner, mode: 'own', source, shape: copyOf(rule, target) } };
        });
        return { owner, version: found.resourceVersion, claims, sources: [source] };
      },
      markOn: ({ annotations }) => (annotations[MARK] === undefined ? undefined : { rule: asKey(annotations[MARK]) }),
      orphanPolicy: () => 'delete',
    };
  }
}

function nameOf(rule: RuleKey): string {
  return rule.slice(rule.indexOf('/') + 1);
}

function copyOf(rule: RuleKey, target: ResourceKey): Shape {
  const annotations = { [MARK]: rule, [PLACE_ANNOTATION]: placeText(parseResourceKey(target)) };
  return {
    id: `${rule} ${target}`,
    desiredState: (source) =>
      source.state === 'present'
        ? { kind: 'be', labels: { [LABEL]: 'true' }, annotations, bookkeeping: {}, data: 'source' }
        : { kind: 'wait', for: 'source', ...userCause('SourceNotFound', 'no source') },
    heldVersion: () => undefined,
  };
}
