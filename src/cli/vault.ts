/** Vault for the operator: the backend, with its words for log and metrics. */
import type { VaultEnvironment } from '../config/vault-environment.ts';
import type { Cluster } from '../copy/cluster/cluster.ts';
import type { Engine } from '../copy/engine.ts';
import { SECRET } from '../copy/model/kind.ts';
import { VaultBackend } from '../copy/vault/backend.ts';
import { BoundedLabel } from '../observe/bounded-label.ts';
import type { Log } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics.ts';
import { systemClock } from '../runtime/clock.ts';
import type { VaultAddresses } from '../vault/addresses.ts';
import type { SessionEvent } from '../vault/session/session-events.ts';

export interface VaultWiringOptions {
  readonly engine: Engine;
  readonly cluster: Cluster;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Which servers may be called. */
  readonly addresses: VaultAddresses;
  readonly environment: VaultEnvironment;
  /** The longest that a call to Vault may take, ms. */
  readonly timeoutMs: number;
}

/** Servers, and mounts of logins, with series of their own in the metrics. */
const MOST_SERIES = 100;

/** Makes Vault a source and a target of the engine. It calls nobody before a rule asks for something. */
export function addVault(options: VaultWiringOptions): VaultBackend {
  const { engine, cluster, log, metrics, addresses, timeoutMs, environment } = options;
  const servers = new BoundedLabel(MOST_SERIES);
  const methods = new BoundedLabel(MOST_SERIES);
  const countLogin = ({ addr, identity }: SessionEvent, result: 'ok' | 'error'): void => {
    metrics.vault.logins.inc({ vault: servers.of(addr), method: methods.of(identity), result });
  };
  const backend = new VaultBackend({
    engine,
    secrets: cluster.store(SECRET),
    clock: systemClock,
    random: Math.random,
    timeoutMs,
    sessions: {
      addresses,
      client: environment.client,
      maxRetries: environment.maxRetries,
      proxy: environment.proxy,
      onCall: ({ addr, method, status }) => {
        const code = status === undefined ? 'error' : String(status);
        metrics.vault.requests.inc({ vault: servers.of(addr), operation: method, code });
      },
      onEvent: (event) => {
        if (event.type === 'login') countLogin(event, 'ok');
        else if (event.type === 'loginFailed') countLogin(event, 'error');
        tell(log, event);
      },
    },
    onWrite: (target, addr, { claim }) => {
      metrics.vault.versionsWritten.inc({
        vault: servers.of(addr),
        system: claim.owner.key.slice(0, claim.owner.key.indexOf(':')),
      });
      log.info('written to vault', { target, owner: claim.owner.title });
    },
    onLeftLease: (source, lease, error) => {
      log.warn('a lease could not be revoked; it ends with its time', { source, lease, error });
    },
    onError: (source, error, retryInMs) => {
      log.warn('will be tried again', { queue: 'polls', source, error, retryInMs });
    },
  });
  engine.addBackend(backend);
  metrics.payloadCacheBytes.add(() => [{ labels: {}, value: backend.sources.cachedBytes }]);
  metrics.queues.add(() =>
    backend.sources.queues.map(({ name, depth, oldestWaitingMs, retries }) => {
      return { queue: name, depth, oldestAgeSeconds: oldestWaitingMs / 1000, retries };
    }),
  );
  return backend;
}

function tell(log: Log, event: SessionEvent): void {
  const { addr, identity, type } = event;
  const about = { vault: addr, identity };
  switch (type) {
    case 'login':
      log.info('logged in to vault', about);
      return;
    case 'loginFailed':
      log.warn('cannot log in to vault', { ...about, error: event.error, retryInMs: event.retryAfterMs });
      return;
    case 'renewFailed':
    case 'revokeFailed':
      log.warn(type === 'renewFailed' ? 'cannot renew a vault token' : 'cannot revoke a vault token', {
        ...about,
        error: event.error,
      });
      return;
    case 'tokenLost':
      log.warn('a vault token is not valid any more', about);
      return;
    case 'expiring':
      log.warn(`a vault token that was given ends at ${new Date(event.expiresAt).toISOString()}`, about);
      return;
    case 'renewed':
    case 'revoked':
      log.debug(`vault token ${type}`, about);
      return;
    default:
      event satisfies never;
  }
}
