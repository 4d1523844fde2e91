/** Puts the SecretMirror system on an engine: its watches, its system, its metrics and events. */
import type { Engine } from '../../copy/engine.ts';
import type { Cluster } from '../../copy/cluster/cluster.ts';
import type { Watcher } from '../../kube/watch/watcher.ts';
import { SECRET } from '../../copy/model/kind.ts';
import type { VaultAddresses } from '../../vault/addresses.ts';
import type { VaultBackend } from '../../copy/vault/backend.ts';
import { isVaultKey } from '../../copy/vault/locations.ts';
import type { MirrorsConfig } from '../../config/config.ts';
import type { Log } from '../../observe/log.ts';
import type { MirrorMetrics } from '../../observe/mirror-metrics.ts';
import { MIRRORS_API_PATH, MIRRORS_SYSTEM, SECRET_MIRROR_PLURAL, type SecretMirror } from './api.ts';
import { LeftBehind } from './left-behind.ts';
import { MirrorStore } from './mirror-store.ts';
import { NamespaceNews } from '../common/namespace-news.ts';
import type { Steps } from '../../runtime/slices.ts';
import { PatternCache } from '../common/namespace-patterns.ts';
import { COPY_LABEL } from './shape.ts';
import type { MirrorEvent } from './status.ts';
import { MirrorSystem } from './reconciler.ts';
import { MirrorVault } from './mirror-vault.ts';
import { places } from './verdict.ts';

export interface MirrorsControllerOptions {
  readonly engine: Engine;
  readonly cluster: Cluster;
  readonly vault: VaultBackend;
  readonly vaultAddresses: VaultAddresses;
  readonly config: Pick<MirrorsConfig, 'regexMode' | 'allowCrossNamespaceAuth' | 'vault'>;
  readonly log: Log;
  readonly metrics: MirrorMetrics;
  readonly recordEvent: (mirror: SecretMirror, event: MirrorEvent) => void;
  /** @see MirrorSystemOptions.deletionTimeoutMs */
  readonly deletionTimeoutMs: number;
  readonly now: () => number;
}

export interface MirrorsController {
  /** A namespace came or went. */
  namespaceChanged(name: string, there: boolean, initial: boolean): void;
  stop(): void;
}

/** Namespaces named in a line of the log. */
const NAMED_LEFT = 10;

/** Opens the watches and adds the system; the engine may be started when the cluster is synced. */
export function startMirrors(options: MirrorsControllerOptions): MirrorsController {
  const { engine, cluster, config, metrics, vault: backend, recordEvent } = options;
  const secrets = cluster.store(SECRET);
  const patterns = new PatternCache(config.regexMode);
  const mirrors = new MirrorStore((rule, initial) => {
    engine.expectSources(rule, system.secretsOf(rule));
    engine.touchRule(rule, initial ? 'low' : 'normal');
  });
  const specOptions = {
    crossNamespaceAuth: config.allowCrossNamespaceAuth,
    vaultAddresses: options.vaultAddresses,
    vaultDefaults: config.vault,
  };
  const vault = new MirrorVault({
    engine,
    backend,
    secrets,
    mirrors,
    metrics,
    recordEvent,
    specOptions,
    now: options.now,
    onLeftLease: (mirror, lease, error) => {
      options.log.warn('a lease could not be revoked; it ends with its time', { mirror, lease, error });
    },
  });
  const leftBehind = new LeftBehind({
    api: cluster.api,
    namespaces: cluster.namespaces,
    onFound: (mirror, name, namespaces) => {
      const where = places(namespaces, NAMED_LEFT);
      options.log.warn(
        `copies of the original are left behind in ${where}: a pattern matches only a part of the name (--mirrors-regex=search serves them, keyferry status names them all)`,
        { mirror, name, count: namespaces.length },
      );
    },
    onFailed: (mirror, error) => {
      options.log.warn('cannot look for copies that the original has left behind', { mirror, error });
    },
  });
  const watches: Watcher[] = [];
  const system = new MirrorSystem({
    api: cluster.api,
    mirrors,
    namespaces: cluster.namespaces,
    patterns,
    secretKey: (namespace, name) => secrets.key(namespace, name),
    viewOf: (source) => (isVaultKey(source) ? backend.view(source) : secrets.view(source)),
    vault,
    specOptions,
    // With the original's way to match there are none.
    leftBehind: config.regexMode === 'full' ? leftBehind : undefined,
    recordEvent,
    onSynced: (mirror, spec, namespaces) => {
      metrics.synced(mirror, spec.sourceType, spec.destinationType);
      if (spec.destinationType === 'namespaces') metrics.setNamespaces(mirror, spec.sourceType, namespaces);
    },
    onGone: (mirror) => {
      metrics.removeMirror(mirror);
    },
    synced: async () => await Promise.all(watches.map(async (watch) => await watch.synced)),
    deletionTimeoutMs: options.deletionTimeoutMs,
    onRoom: (rule) => engine.touchRule(rule, 'low'),
    isNamespaceNews: () => news.isBusy,
    now: options.now,
  });
  const news = new NamespaceNews(engine.slices, function* (name, there, initial): Steps<void> {
    for (const rule of yield* system.rulesFor(name)) engine.touchRule(rule, initial ? 'low' : 'normal');
    system.recount();
    if (!there) patterns.forgetNamespace(name);
  });
  engine.addReconciler(system);
  const mirrorWatch = cluster.watch(
    { name: SECRET_MIRROR_PLURAL, path: `${MIRRORS_API_PATH}/${SECRET_MIRROR_PLURAL}`, metadataOnly: false },
    mirrors.sink,
  );
  const copyWatch = cluster.watch(
    {
      name: 'secrets/copies',
      path: '/api/v1/secrets',
      labelSelector: `${COPY_LABEL}=${MIRRORS_SYSTEM}`,
      metadataOnly: true,
      inPages: true,
    },
    secrets.index.feed().sink,
  );
  watches.push(mirrorWatch, copyWatch);
  return {
    namespaceChanged: (...change) => news.add(...change),
    stop: () => {
      news.stop();
    },
  };
}
