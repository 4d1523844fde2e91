/** Where content comes from: the seam between targets and the many kinds of source, and the switch between these. */
import type { SourceView } from './model/claim.ts';
import type { Content } from './model/content.ts';
import { backendOf, type ResourceKey } from './model/keys.ts';
import type { Fingerprint } from './model/fingerprint.ts';

export interface SourceReader {
  /** What is known of a source without any I/O. */
  view(source: ResourceKey | undefined): SourceView;
  /** The fingerprint of its content at the version of its view, if it has been read. */
  fingerprint(source: ResourceKey | undefined): Fingerprint | undefined;
  /** The content at the version of its view or newer; after it, view and fingerprint are as new. `undefined`: it is gone. */
  load(source: ResourceKey, signal: AbortSignal): Promise<Content | undefined>;
}

/** A reader that has to be told what to follow. */
export interface SourceProvider extends SourceReader {
  want(source: ResourceKey): void;
  forget(source: ResourceKey): void;
}

const NONE: SourceView = { state: 'unknown' };

/** All providers as one, by the backend of the key. */
export class SourceRouter implements SourceProvider {
  readonly #providers = new Map<string, SourceProvider>();

  /** @param backend first part of the keys: a cluster's name, or `vault` */
  add(backend: string, provider: SourceProvider): void {
    this.#providers.set(backend, provider);
  }

  view(source: ResourceKey | undefined): SourceView {
    return source === undefined ? NONE : (this.#find(source)?.view(source) ?? NONE);
  }

  fingerprint(source: ResourceKey | undefined): Fingerprint | undefined {
    return source === undefined ? undefined : this.#find(source)?.fingerprint(source);
  }

  async load(source: ResourceKey, signal: AbortSignal): Promise<Content | undefined> {
    return await this.#get(source).load(source, signal);
  }

  want(source: ResourceKey): void {
    this.#get(source).want(source);
  }

  forget(source: ResourceKey): void {
    this.#get(source).forget(source);
  }

  #find(source: ResourceKey): SourceProvider | undefined {
    return this.#providers.get(backendOf(source));
  }

  #get(source: ResourceKey): SourceProvider {
    const provider = this.#find(source);
    if (provider === undefined) throw new Error(`nobody provides the source ${source}`);
    return provider;
  }
}
