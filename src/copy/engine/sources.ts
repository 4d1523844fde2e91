/** Reads sources of all backends. */
import type { Backend, SourceProvider } from './backend.ts';
import type { SourceView } from '../model/claim.ts';
import type { Content, Fingerprint } from '../model/content.ts';
import { backendOf, type ResourceKey } from '../model/keys.ts';

export interface SourceReader {
  /** The state of a source, without I/O. */
  view(source: ResourceKey | undefined): SourceView;
  /** The fingerprint of its content at the version of its view, if it has been read. */
  fingerprint(source: ResourceKey | undefined): Fingerprint | undefined;
  /** The content at the version of its view or newer. Afterwards view and fingerprint have that version. `undefined`: it no longer exists. */
  load(source: ResourceKey, signal: AbortSignal): Promise<Content | undefined>;
  /** Its only copy has the content now. */
  copied?(source: ResourceKey): void;
}

const NONE: SourceView = { state: 'unknown' };

/** The sources of all backends. The first part of a key names the backend. */
export class SourceRouter implements SourceProvider {
  readonly #backends = new Map<string, Backend>();

  add(backend: Backend): void {
    this.#backends.set(backend.name, backend);
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

  copied(source: ResourceKey): void {
    this.#find(source)?.copied?.(source);
  }

  follow(source: ResourceKey): void {
    this.#get(source).follow(source);
  }

  unfollow(source: ResourceKey): void {
    this.#get(source).unfollow(source);
  }

  #find(source: ResourceKey): SourceProvider | undefined {
    return this.#backends.get(backendOf(source))?.sourcesOf(source);
  }

  #get(source: ResourceKey): SourceProvider {
    const provider = this.#find(source);
    if (provider === undefined) throw new Error(`no backend for the source ${source}`);
    return provider;
  }
}
