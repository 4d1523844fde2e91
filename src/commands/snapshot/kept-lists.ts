/**
 * Reports that follow the cluster, for `status --watch` and `ui`, from lists that watches keep up to date. A path is
 * listed and watched from its first use on.
 *
 *   unused ──probe──▶ watched ──403 or 404──▶ unused
 *     └──403 or 404: throws, the next use probes again
 */
import { type KubeApi, type KubeObject, METADATA_ONLY } from '../../kube/api.ts';
import { isForbidden, isNotFound } from '../../kube/errors.ts';
import { parseJson } from '../../kube/json.ts';
import { type Listed, type ListOptions, METADATA_LIST } from '../../kube/list-each.ts';
import { Watcher } from '../../kube/watch/watcher.ts';
import { errorText } from '../../observe/error-fields.ts';
import { sleep } from '../../runtime/abort.ts';
import { type Lister, listerBy } from './inventory.ts';

/** Changes within this time are shown together, ms. The pause between reports is at least as long as a report took. */
const SETTLE_MS = 150;
/** How often the state of the connection is looked at, ms. */
const TICK_MS = 500;
/** Longest time between two reports, ms: the next one shows new APIs, and the Lease. */
const REPORT_MS = 60_000;
/** Pause after a report that failed, ms. */
const RETRY_MS = 2000;

export interface Follower<Report> {
  /** Makes a report from lists. @throws the errors of `api.request` */
  readonly report: (lister: Lister) => Promise<Report>;
  readonly onReport: (report: Report) => void;
  /** Called again and again. @param lost why the report may be out of date; `undefined`: it is not */
  readonly onState: (lost: string | undefined) => void;
}

/** Reports at first and after each change, until the signal is aborted. @throws the errors of the first report */
export async function follow<Report>(
  api: KubeApi,
  { report, onReport, onState }: Follower<Report>,
  signal: AbortSignal,
): Promise<void> {
  let change = Promise.withResolvers<void>();
  let isFirst = true;
  await using lists = new KeptLists(api, () => change.resolve());
  while (!signal.aborted) {
    try {
      change = Promise.withResolvers();
      const begun = performance.now();
      onReport(await report(lists.lister));
      isFirst = false;
      const ended = performance.now();
      const seen = change.promise.then(() => true);
      do onState(lists.lost);
      while (!(await Promise.race([seen, sleep(TICK_MS, signal).then(() => performance.now() >= ended + REPORT_MS)])));
      await sleep(Math.max(SETTLE_MS, 2 * ended - begun - performance.now()), signal);
    } catch (error) {
      if (signal.aborted) return;
      if (isFirst) throw error;
      onState(errorText(error));
      await sleep(RETRY_MS, signal).catch(() => undefined);
    }
  }
}

interface Kept {
  readonly items: ReadonlyMap<string, Listed>;
  readonly watcher: Watcher;
}

const keyOf = ({ metadata: { namespace = '', name } }: KubeObject): string =>
  namespace === '' ? name : `${namespace}/${name}`;

class KeptLists implements AsyncDisposable {
  readonly lister: Lister;
  readonly #api: KubeApi;
  readonly #onChange: () => void;
  readonly #kept = new Map<string, Kept>();

  /** @param onChange called after a change of a listed object, not for the first list: the caller waits for that */
  constructor(api: KubeApi, onChange: () => void) {
    this.#api = api;
    this.#onChange = onChange;
    this.lister = listerBy(api, 'list and watch', async (path, take, options) => {
      const { items } = this.#kept.get(path) ?? (await this.#keep(path, options));
      for (const item of items.values()) take(item);
    });
  }

  /** Why the lists may be out of date; `undefined`: they are up to date. */
  get lost(): string | undefined {
    for (const { watcher } of this.#kept.values()) {
      const { connected, error } = watcher.health;
      if (!connected && error !== undefined) return error;
    }
    return undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(Array.from(this.#kept.values(), async ({ watcher }) => await watcher.stop()));
    this.#kept.clear();
  }

  /** @throws the errors of `api.request`, also if the path may be listed but not watched */
  async #keep(path: string, { metadataOnly = false, signal }: ListOptions = {}): Promise<Kept> {
    // A watcher tries again after every refusal. So a path that is missing, or may not be listed and watched, is found out
    // before.
    const accept = metadataOnly ? METADATA_LIST : undefined;
    const { body } = await this.#api.request({ method: 'GET', path, query: { limit: 1 }, accept, signal });
    const { resourceVersion } = (parseJson(body, `the list of ${path}`) as Listed).metadata;
    const query = { watch: 1, resourceVersion, timeoutSeconds: 1 };
    (
      await this.#api.stream({ method: 'GET', path, query, accept: metadataOnly ? METADATA_ONLY : undefined, signal })
    ).close();
    const items = new Map<string, Listed>();
    let isListed = false;
    const changed = (): void => void (isListed && this.#onChange());
    const refused = Promise.withResolvers<never>();
    // It may be refused later, when nobody waits.
    refused.promise.catch(() => undefined);
    const watcher = new Watcher({
      api: this.#api,
      target: { collection: path, path, metadataOnly },
      sink: {
        upsert: (object) => {
          items.set(keyOf(object), object as Listed);
          changed();
          return true;
        },
        remove: (object) => {
          items.delete(keyOf(object));
          changed();
        },
        prune: (keys) => {
          for (const key of items.keys()) if (!keys.has(key)) items.delete(key);
          changed();
        },
      },
      onTrouble: (error) => {
        if (!isForbidden(error) && !isNotFound(error)) return;
        this.#kept.delete(path);
        void watcher.stop();
        refused.reject(error);
        // While the first list is awaited, the report that asked for it gets the error.
        changed();
      },
    }).start();
    const listed = { items, watcher };
    this.#kept.set(path, listed);
    const onAbort = (): void => refused.reject(signal?.reason as Error);
    signal?.addEventListener('abort', onAbort);
    try {
      const kept = await Promise.race([watcher.synced.then(() => listed), refused.promise]);
      isListed = true;
      return kept;
    } finally {
      signal?.removeEventListener('abort', onAbort);
    }
  }
}
