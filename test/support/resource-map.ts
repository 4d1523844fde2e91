/** Finds the API path for an apiVersion and kind, with the API server's discovery. */
import { waitFor } from './wait-for.ts';

export interface Reference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata?: { readonly name?: string; readonly namespace?: string };
}

interface Resource {
  readonly name: string;
  readonly kind: string;
  readonly namespaced: boolean;
}

type Discover = (path: string) => Promise<{ readonly resources: readonly Resource[] }>;

export class ResourceMap {
  readonly #discover: Discover;
  readonly #known = new Map<string, Promise<readonly Resource[]>>();

  constructor(discover: Discover) {
    this.#discover = discover;
  }

  /** Forgets all paths. Call it after a CRD was added or changed. */
  clear(): void {
    this.#known.clear();
  }

  /** @throws Error if the API server does not serve the kind within 5 s. (A new CRD may need that time) */
  async collection({ apiVersion, kind, metadata }: Reference): Promise<string> {
    const base = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
    const resource = await waitFor(() => this.#find(base, kind), {
      message: `kind ${kind} in ${apiVersion}`,
    });
    if (!resource.namespaced) return `${base}/${resource.name}`;
    return `${base}/namespaces/${encodeURIComponent(metadata?.namespace ?? 'default')}/${resource.name}`;
  }

  async #find(base: string, kind: string): Promise<Resource | undefined> {
    const known = this.#known.get(base) ?? this.#discover(base).then(({ resources }) => resources);
    this.#known.set(base, known);
    try {
      const resource = (await known).find((one) => one.kind === kind && !one.name.includes('/'));
      if (resource === undefined) this.#known.delete(base);
      return resource;
    } catch (error) {
      this.#known.delete(base);
      throw error;
    }
  }
}
