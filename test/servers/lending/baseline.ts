/**
 * Restores the etcd of a lent control plane to the state of a new cluster, so that nothing of one test is left for the
 * next. It deletes the test's namespaces, objects, roles and CRDs from etcd. The watches of the API server see this.
 */
import { setTimeout as delay } from 'node:timers/promises';

import { TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { apiServerUrl, type ControlPlaneAccess, tokenOf } from '../control-plane-servers.ts';
import { type Entry, EtcdClient, keyText } from '../etcd-client.ts';

const ALL = '/registry/';
/** Keys that the API server creates shortly after it is ready. (Roles and flow schemas exist when it is ready.) */
const MADE_LATE = [
  'configmaps/kube-system/extension-apiserver-authentication',
  'configmaps/kube-system/kube-apiserver-legacy-service-account-token-tracking',
  'namespaces/kube-node-lease',
  'namespaces/kube-public',
  'namespaces/kube-system',
  'services/specs/default/kubernetes',
].map((name) => ALL + name);
/** Keys that the API server creates and deletes by itself at any time. */
const KEPT_BY_SERVER = /^\/registry\/(masterleases|peerserverleases)\//;
/** Keys whose values the API server changes by itself at any time. */
const CHANGED_BY_SERVER =
  /^\/registry\/(apiregistration\.k8s\.io|configmaps\/kube-system|flowschemas|ipaddresses|leases|prioritylevelconfigurations|ranges|servicecidrs)\//;
/**
 * Objects whose effect lasts a second or more after their deletion, or that make the API server refuse requests. After
 * such an object, the servers are not lent again.
 */
const NOT_FORGOTTEN = /^\/registry\/(validating|mutating)(admissionpolic|webhookconfiguration)/;
/** Definitions that are in place when servers are lent. The API server does not notice at once if they are restored. */
const LENT_CRDS = /^\/registry\/apiextensions\.k8s\.io\/customresourcedefinitions\//;
/** With more objects than this, deleting them takes longer than starting new servers. */
const MOST_OBJECTS = 3000;
const LOOK_MS = 50;
const LOOKS = 100;

export class Baseline implements Disposable {
  readonly #etcd: EtcdClient;
  readonly #api: TestApi;
  /** The values in a new cluster, by key; both in base64. */
  readonly #entries: ReadonlyMap<string, string>;
  /** The paths of all APIs in a new cluster. */
  readonly #apis: string;

  private constructor(etcd: EtcdClient, api: TestApi, entries: readonly Entry[], apis: string) {
    this.#etcd = etcd;
    this.#api = api;
    this.#entries = new Map(entries.map(({ key, value }) => [key, value]));
    this.#apis = apis;
  }

  /** Records the content of unused servers. First waits until the API server has created its own objects. */
  static async take(access: ControlPlaneAccess): Promise<Baseline> {
    const etcd = new EtcdClient(access.layout.etcdPort);
    const { certPem: caPem } = access.authority;
    const api = new TestApi({ url: apiServerUrl(access), caPem, token: tokenOf(access, 'admin') });
    const entries = await waitFor(
      async () => {
        const found = await listOf(etcd);
        const keys = new Set(found.map(keyText));
        return MADE_LATE.every((key) => keys.has(key)) && found;
      },
      { message: 'the API server to make its objects' },
    );
    return new Baseline(etcd, api, entries, await readApis(api));
  }

  /**
   * Restores etcd and the API server.
   * @returns false if a definition of the baseline is gone or changed, or the API server still shows something of the test
   */
  async restore(): Promise<boolean> {
    const first = await listOf(this.#etcd);
    if (first.length > MOST_OBJECTS || first.some((entry) => NOT_FORGOTTEN.test(keyText(entry)))) return false;
    if (!this.#hasCrds(first)) return false;
    for (let looks = 0; looks < LOOKS; looks += 1) {
      const isClean = await this.#clean(looks === 0 ? first : await listOf(this.#etcd));
      if (isClean && (await readApis(this.#api)) === this.#apis) return true;
      // The API server removes the APIs of deleted CRDs only after a moment.
      await delay(LOOK_MS);
    }
    return false;
  }

  [Symbol.dispose](): void {
    this.#etcd[Symbol.dispose]();
    this.#api.close();
  }

  #hasCrds(entries: readonly Entry[]): boolean {
    const found = new Map(entries.map(({ key, value }) => [key, value]));
    return [...this.#entries].every(([key, value]) => !LENT_CRDS.test(keyText({ key })) || found.get(key) === value);
  }

  /** Deletes and restores entries. @returns whether there was nothing to do */
  async #clean(entries: readonly Entry[]): Promise<boolean> {
    const found = new Map(entries.map(({ key, value }) => [key, value]));
    const added = [...found.keys()].filter((key) => !this.#entries.has(key));
    const changed = [...this.#entries]
      .map(([key, value]) => ({ key, value }))
      .filter(({ key, value }) => {
        const now = found.get(key);
        return now === undefined || (now !== value && !CHANGED_BY_SERVER.test(keyText({ key })));
      });
    await this.#etcd.delete(added);
    await this.#etcd.put(changed);
    return added.length === 0 && changed.length === 0;
  }
}

async function listOf(etcd: EtcdClient): Promise<Entry[]> {
  return (await etcd.list(ALL)).filter((entry) => !KEPT_BY_SERVER.test(keyText(entry)));
}

async function readApis(api: TestApi): Promise<string> {
  const { groups } = await api.get('/apis');
  return JSON.stringify(groups);
}
