/** Where content comes from: the seam between targets and the many kinds of source, and the switch between these. */
import type { SourceView } from './claim.ts';
import type { Content } from './content.ts';
import { backendOf, type HolderKey } from './keys.ts';
import type { Gist } from './plan.ts';

export interface SourceReader {
  /** What is known of a source without any I/O. */
  view(source: HolderKey | undefined): SourceView;
  /** The gist of its content at the version of its view, if it has been read. */
  gist(source: HolderKey | undefined): Gist | undefined;
  /** The content at the version of its view or newer; after it, view and gist are as new. `undefined`: it is gone. */
  load(source: HolderKey, signal: AbortSignal): Promise<Content | undefined>;
}

/** A reader that has to be told what to follow. */
export interface SourceProvider extends SourceReader {
  want(source: HolderKey): void;
  forget(source: HolderKey): void;
}

const NONE: SourceView = { state: 'unknown' };

/** All providers as one, by the backend of the key. */
export class SourceRouter implements SourceProvider {
  readonly #providers = new Map<string, SourceProvider>();

  /** @param backend first part of the keys: a cluster's name, or `vault` */
  add(backend: string, provider: SourceProvider): void {
    this.#providers.set(backend, provider);
  }

  view(source: HolderKey | undefined): SourceView {
    return source === undefined ? NONE : (this.#find(source)?.view(source) ?? NONE);
  }

  gist(source: HolderKey | undefined): Gist | undefined {
    return source === undefined ? undefined : this.#find(source)?.gist(source);
  }

  async load(source: HolderKey, signal: AbortSignal): Promise<Content | undefined> {
    return await this.#get(source).load(source, signal);
  }

  want(source: HolderKey): void {
    this.#get(source).want(source);
  }

  forget(source: HolderKey): void {
    this.#get(source).forget(source);
  }

  #find(source: HolderKey): SourceProvider | undefined {
    return this.#providers.get(backendOf(source));
  }

  #get(source: HolderKey): SourceProvider {
    const provider = this.#find(source);
    if (provider === undefined) throw new Error(`nobody provides the source ${source}`);
    return provider;
  }
}
