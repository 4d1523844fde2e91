/**
 * Finds copies of the original in namespaces where a pattern matches only a part of the name. The original updated these copies. Here
 * a pattern must match the whole name, so they are no longer updated, and the log warns about them.
 *
 * Runs once for each version of a mirror, and only if there are such namespaces: usually it sends no request.
 */
import type { KubeApi } from '../../kube/api.ts';
import { type Listed, listEach } from '../../kube/list-each.ts';
import { pathIn } from '../../kube/watch/watch-group.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { PLACE_ANNOTATION } from '../../copy/plan/marks.ts';
import type { Namespaces } from '../../copy/cluster/namespaces.ts';
import { MIRROR_ANNOTATIONS, type SecretMirror } from './api.ts';
import type { EffectiveSpec } from './spec.ts';

const SECRETS = '/api/v1/secrets';
const TIMEOUT_MS = 10_000;

export interface StaleOriginalCopiesOptions {
  readonly api: KubeApi;
  readonly namespaces: Namespaces;
  /** The only namespaces that may be read; `undefined`: all. */
  readonly served?: readonly string[] | undefined;
  /** @param inNamespaces sorted, at least one */
  readonly onFound: (mirror: string, name: string, inNamespaces: readonly string[]) => void;
  readonly onFailed: (mirror: string, error: unknown) => void;
}

export class StaleOriginalCopies {
  readonly #options: StaleOriginalCopiesOptions;
  /** Last checked version of each mirror. */
  readonly #checked = new Map<RuleKey, string>();

  constructor(options: StaleOriginalCopiesOptions) {
    this.#options = options;
  }

  /** Checks a mirror, unless its version is checked already. Never throws. */
  async check(rule: RuleKey, { metadata }: SecretMirror, spec: EffectiveSpec, signal: AbortSignal): Promise<void> {
    const version = `${metadata.uid} ${metadata.generation ?? 0}`;
    if (this.#checked.get(rule) === version) return;
    this.#checked.set(rule, version);
    const { api, served, onFound, onFailed } = this.#options;
    const { sourceName } = spec;
    const partly = this.#matchedInPart(spec);
    if (sourceName === undefined || partly.size === 0) return;
    const mirror = `${metadata.namespace ?? ''}/${metadata.name}`;
    const found: string[] = [];
    try {
      const take = ({ metadata: { namespace = '', annotations = {} } }: Listed): void => {
        // A copy with a place is Keyferry's own, made with another --mirrors-regex. It is an orphan and will be deleted.
        const isOriginals = annotations[MIRROR_ANNOTATIONS.ownedBy] === mirror && !(PLACE_ANNOTATION in annotations);
        if (isOriginals && partly.has(namespace)) found.push(namespace);
      };
      const fieldSelector = `metadata.name=${sourceName}`;
      const options = { fieldSelector, metadataOnly: true, timeoutMs: TIMEOUT_MS, signal };
      const paths = served === undefined ? [SECRETS] : Array.from(partly, (namespace) => pathIn(SECRETS, namespace));
      for (const path of paths) await listEach(api, path, take, options);
    } catch (error) {
      if (!signal.aborted) onFailed(mirror, error);
      return;
    }
    if (found.length > 0) onFound(mirror, sourceName, found.toSorted());
  }

  remove(rule: RuleKey): void {
    this.#checked.delete(rule);
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
