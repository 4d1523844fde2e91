/** The cluster of the demo. Each method is a call that a user could make with kubectl. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parseAllDocuments } from 'yaml';

import { serverTable } from './server-table.ts';
import type { KubeApi, KubeObject } from '../src/kube/api.ts';
import { isAlreadyExists, isNotFound } from '../src/kube/errors.ts';

/** API path for each kind in the manifests of the demo. */
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
  readonly #tableWidth: number;
  readonly #namespaces = new Set<string>();

  /** @param tableWidth how long a line of a table may be */
  constructor(api: KubeApi, signal: AbortSignal, tableWidth: number) {
    this.api = api;
    this.#signal = signal;
    this.#tableWidth = tableWidth;
  }

  /** Reads the objects in a file of `demo/manifests`. In the file, `${NAME}` stands for the variable `NAME`. */
  async manifests(file: string, variables: Readonly<Record<string, string>> = {}): Promise<Manifest[]> {
    let text = await readFile(path.join(MANIFESTS, file), 'utf8');
    for (const [name, value] of Object.entries(variables)) text = text.replaceAll(`\${${name}}`, value);
    return parseManifests(text);
  }

  /** Creates an object. @returns the created object; `undefined` if such an object already existed */
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

  /** Reads an object. @param reference its API path @returns `undefined` if the object does not exist */
  async find(reference: string): Promise<KubeObject | undefined> {
    try {
      return await this.#call('GET', reference);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** The namespaces of the demo that still exist. Can also be called when the demo is being stopped. */
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

  /** Deletes an object, if it exists. For the cleanup it also works when the demo is being stopped. */
  async delete(reference: string): Promise<void> {
    try {
      await this.api.request({ method: 'DELETE', path: reference, timeoutMs: 10_000 });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  /** The lines that `kubectl get` would print for a collection. */
  async table(collection: string, options: { all?: boolean; query?: Readonly<Record<string, string>> } = {}) {
    return await serverTable(this.api, {
      path: collection,
      withNamespace: options.all ?? false,
      query: options.query ?? {},
      signal: this.#signal,
      width: this.#tableWidth,
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
