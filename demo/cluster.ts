/** The cluster of the demo. Its methods are the calls that a user makes with kubectl. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parseAllDocuments } from 'yaml';

import { serverTable } from './server-table.ts';
import type { KubeApi, KubeObject } from '../src/kube/api.ts';
import { isAlreadyExists, isNotFound } from '../src/kube/errors.ts';

/** API paths by the kind of the objects in the manifests. */
const PATHS: Readonly<Record<string, string>> = {
  Namespace: '/api/v1/namespaces',
  Secret: '/api/v1/namespaces/{namespace}/secrets',
  SecretMirror: '/apis/mirrors.kts.studio/v1alpha2/namespaces/{namespace}/secretmirrors',
  SyncSecret: '/apis/kubelb.k8c.io/v1alpha1/namespaces/{namespace}/syncsecrets',
  SecretStore: '/apis/external-secrets.io/v1/namespaces/{namespace}/secretstores',
  ExternalSecret: '/apis/external-secrets.io/v1/namespaces/{namespace}/externalsecrets',
  CustomResourceDefinition: '/apis/apiextensions.k8s.io/v1/customresourcedefinitions',
};

const MANIFESTS = path.join(import.meta.dirname, 'manifests');

export type Manifest = KubeObject & { readonly kind: string };

export class DemoCluster {
  readonly api: KubeApi;
  readonly #signal: AbortSignal;
  readonly #namespaces = new Set<string>();

  constructor(api: KubeApi, signal: AbortSignal) {
    this.api = api;
    this.#signal = signal;
  }

  /**
   * The objects in a file of `demo/manifests`. `${NAME}` in the file is replaced by the value of the variable `NAME`.
   */
  async manifests(file: string, variables: Readonly<Record<string, string>> = {}): Promise<Manifest[]> {
    let text = await readFile(path.join(MANIFESTS, file), 'utf8');
    for (const [name, value] of Object.entries(variables)) text = text.replaceAll(`\${${name}}`, value);
    return parseManifests(text);
  }

  /** Creates an object. @returns the created object; `undefined` if it already existed */
  async create(object: Manifest): Promise<KubeObject | undefined> {
    try {
      const made = await this.#call('POST', collectionOf(object), object);
      if (object.kind === 'Namespace') this.#namespaces.add(object.metadata.name);
      return made;
    } catch (error) {
      if (isAlreadyExists(error)) return undefined;
      throw error;
    }
  }

  /** Reads an object by its path. @returns `undefined` if the object does not exist */
  async find(reference: string): Promise<KubeObject | undefined> {
    try {
      return await this.#call('GET', reference);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** Names of the namespaces of the demo that still exist. Also works after the signal to stop the demo. */
  async namespacesLeft(): Promise<string[]> {
    const left: string[] = [];
    for (const name of this.#namespaces) {
      try {
        await this.api.request({ method: 'GET', path: `/api/v1/namespaces/${name}`, timeoutMs: 10_000 });
        left.push(name);
      } catch (error) {
        if (!isNotFound(error)) throw error;
      }
    }
    return left;
  }

  async list(collection: string): Promise<readonly KubeObject[]> {
    return ((await this.#call('GET', collection)) as unknown as { items: readonly KubeObject[] }).items;
  }

  async mergePatch(reference: string, patch: unknown): Promise<KubeObject> {
    return await this.#call('PATCH', reference, patch, 'application/merge-patch+json');
  }

  /** Deletes an object by its path, if it exists. Also works after the signal to stop the demo, for the cleanup. */
  async delete(reference: string): Promise<void> {
    try {
      await this.api.request({ method: 'DELETE', path: reference, timeoutMs: 10_000 });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  /** The output lines of `kubectl get`. */
  async table(collection: string, options: { all?: boolean; query?: Readonly<Record<string, string>> } = {}) {
    return await serverTable(this.api, {
      path: collection,
      withNamespace: options.all ?? false,
      query: options.query ?? {},
      signal: this.#signal,
    });
  }

  async #call(method: 'GET' | 'POST' | 'PATCH', where: string, body?: unknown, contentType?: string) {
    const { body: answer } = await this.api.request({
      method,
      path: where,
      signal: this.#signal,
      ...(method === 'GET' ? {} : { query: { fieldManager: 'keyferry-demo' } }),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(contentType === undefined ? {} : { contentType }),
    });
    return JSON.parse(answer.toString()) as KubeObject;
  }
}

export function parseManifests(text: string): Manifest[] {
  return parseAllDocuments(text).map((document) => {
    if (document.errors[0] !== undefined) throw document.errors[0];
    return document.toJS() as Manifest;
  });
}

export function pathOf(object: Manifest): string {
  return `${collectionOf(object)}/${object.metadata.name}`;
}

function collectionOf({ kind, metadata }: Manifest): string {
  const template = PATHS[kind];
  if (template === undefined) throw new TypeError(`the demo does not know the kind ${kind}`);
  return template.replace('{namespace}', metadata.namespace ?? 'default');
}
