/** The cluster that the demo works on, with the few calls that a user would make with kubectl. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { parseAllDocuments } from 'yaml';

import { serverTable } from './server-table.ts';
import type { KubeApi, KubeObject } from '../src/kube/api.ts';
import { isAlreadyExists, isNotFound } from '../src/kube/errors.ts';

/** Paths of the kinds in our manifests; a name in braces is put in. */
const PATHS: Readonly<Record<string, string>> = {
  Namespace: '/api/v1/namespaces',
  Secret: '/api/v1/namespaces/{namespace}/secrets',
  SecretMirror: '/apis/mirrors.kts.studio/v1alpha2/namespaces/{namespace}/secretmirrors',
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

  /** The objects of one of the demo's own files; `${NAME}` in it becomes the variable's value. */
  async manifests(file: string, variables: Readonly<Record<string, string>> = {}): Promise<Manifest[]> {
    let text = await readFile(path.join(MANIFESTS, file), 'utf8');
    for (const [name, value] of Object.entries(variables)) text = text.replaceAll(`\${${name}}`, value);
    return parseManifests(text);
  }

  /** Creates; `undefined` if an object of that name is there. */
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

  /** `undefined` if it is not there. */
  async find(reference: string): Promise<KubeObject | undefined> {
    try {
      return await this.#call('GET', reference);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  /** Namespaces that were made here and are still there. Works on while the demo is being stopped. */
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

  /** Deletes; being gone is as good. Works on while the demo is being stopped, because it cleans up. */
  async delete(reference: string): Promise<void> {
    try {
      await this.api.request({ method: 'DELETE', path: reference, timeoutMs: 10_000 });
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  /** What `kubectl get` prints. */
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

/** Path of an object, or of what stands for it. */
export function pathOf(object: Manifest): string {
  return `${collectionOf(object)}/${object.metadata.name}`;
}

function collectionOf({ kind, metadata }: Manifest): string {
  const template = PATHS[kind];
  if (template === undefined) throw new TypeError(`the demo does not know the kind ${kind}`);
  return template.replace('{namespace}', metadata.namespace ?? 'default');
}
