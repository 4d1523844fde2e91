/**
 * Copies that the original made in namespaces of which a pattern matches only a part of the name. The original served these; a
 * pattern stands for the whole name here, so nobody keeps these copies right any more. Their users are to hear of it.
 *
 * Looked for once for each version of a mirror, and only where there are such namespaces: usually nothing is asked of the server.
 */
import type { KubeApi } from '../../kube/api.ts';
import { listEach } from '../../kube/list-each.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { PLACE_ANNOTATION } from '../../copy/plan/marks.ts';
import type { Namespaces } from '../../copy/cluster/namespaces.ts';
import { MIRROR_ANNOTATIONS, type SecretMirror } from './api.ts';
import type { EffectiveSpec } from './spec.ts';

/** Nobody waits for the answer. */
const TIMEOUT_MS = 10_000;

export interface LeftBehindOptions {
  readonly api: KubeApi;
  readonly namespaces: Namespaces;
  /** @param inNamespaces at least one, in order */
  readonly onFound: (mirror: string, name: string, inNamespaces: readonly string[]) => void;
  readonly onFailed: (mirror: string, error: unknown) => void;
}

export class LeftBehind {
  readonly #options: LeftBehindOptions;
  /** Version of each mirror that was looked at last. */
  readonly #looked = new Map<RuleKey, string>();

  constructor(options: LeftBehindOptions) {
    this.#options = options;
  }

  /** Looks for the copies of a mirror, unless this was done for its present version. Never throws. */
  async look(rule: RuleKey, { metadata }: SecretMirror, spec: EffectiveSpec, signal: AbortSignal): Promise<void> {
    const version = `${metadata.uid} ${metadata.generation ?? 0}`;
    if (this.#looked.get(rule) === version) return;
    this.#looked.set(rule, version);
    const { api, onFound, onFailed } = this.#options;
    const { sourceName } = spec;
    const partly = this.#matchedInPart(spec);
    if (sourceName === undefined || partly.size === 0) return;
    const mirror = `${metadata.namespace ?? ''}/${metadata.name}`;
    const found: string[] = [];
    try {
      await listEach(
        api,
        '/api/v1/secrets',
        ({ metadata: { namespace = '', annotations = {} } }) => {
          // What names its place was made here, under other flags, and goes.
          const isOriginals = annotations[MIRROR_ANNOTATIONS.ownedBy] === mirror && !(PLACE_ANNOTATION in annotations);
          if (isOriginals && partly.has(namespace)) found.push(namespace);
        },
        { fieldSelector: `metadata.name=${sourceName}`, metadataOnly: true, timeoutMs: TIMEOUT_MS, signal },
      );
    } catch (error) {
      if (!signal.aborted) onFailed(mirror, error);
      return;
    }
    if (found.length > 0) onFound(mirror, sourceName, found.toSorted());
  }

  forget(rule: RuleKey): void {
    this.#looked.delete(rule);
  }

  #matchedInPart({ matchers }: EffectiveSpec): ReadonlySet<string> {
    const partly = new Set<string>();
    for (const namespace of this.#options.namespaces.names()) {
      if (matchers.some((pattern) => pattern.matches(namespace))) continue;
      if (matchers.some((pattern) => pattern.occursIn(namespace))) partly.add(namespace);
    }
    return partly;
  }
}
