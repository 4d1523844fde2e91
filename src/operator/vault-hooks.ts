/** Turns the events of the Vault backend into log lines and metrics. */
import { controllerOf } from '../copy/model/keys.ts';
import type { VaultBackendOptions } from '../copy/vault/backend.ts';
import { BoundedLabel, MAX_VAULTS } from '../observe/metrics/metric-registry.ts';
import type { Log } from '../observe/log.ts';
import type { Metrics } from '../observe/metrics/metrics.ts';
import type { SessionEvent } from '../vault/session/token.ts';

type Hooks = Pick<VaultBackendOptions, 'onCall' | 'onSession' | 'onWrite' | 'onRevokeFailed' | 'onError'>;

export function vaultHooks(log: Log, metrics: Metrics): Hooks {
  const servers = new BoundedLabel(MAX_VAULTS);
  const methods = new BoundedLabel(MAX_VAULTS);
  const failedLogins = new WeakSet<Error>();
  return {
    onCall: ({ addr, method, status }) => {
      const code = status === undefined ? 'error' : String(status);
      metrics.vault.requests.inc({ vault: servers.of(addr), operation: method, code });
    },
    onSession: (event) => {
      const { addr, identity, type } = event;
      if (type === 'login' || type === 'loginFailed') {
        const result = type === 'login' ? 'ok' : 'error';
        metrics.vault.logins.inc({ vault: servers.of(addr), method: methods.of(identity), result });
      }
      if (type === 'loginFailed') failedLogins.add(event.error);
      logSession(log, event);
    },
    onWrite: (target, addr, { claim: { owner } }) => {
      metrics.vault.versionsWritten.inc({ vault: servers.of(addr), system: controllerOf(owner.key) });
      log.info('Vault entry written', { target, rule: owner.key });
    },
    onRevokeFailed: (source, lease, error) => {
      log.warn('cannot revoke a Vault lease, it stays valid until it expires', { source, lease, error });
    },
    onError: ({ source, rule, error, retryInMs }) => {
      // A failed login is logged once as a warning. So entries that fail because of it are logged at level debug.
      const level = causesOf(error).some((cause) => failedLogins.has(cause)) ? 'debug' : 'warn';
      log[level]('reconcile failed, retrying', { queue: 'polls', source, rule, error, retryInMs });
    },
  };
}

/** An error with all its causes. */
function causesOf(error: unknown): Error[] {
  return error instanceof Error ? [error, ...causesOf(error.cause)] : [];
}

const SESSION_LINES = {
  login: ['info', 'logged in to Vault'],
  loginFailed: ['warn', 'cannot log in to Vault'],
  renewFailed: ['warn', 'cannot renew a Vault token'],
  revokeFailed: ['warn', 'cannot revoke a Vault token'],
  tokenLost: ['warn', 'a Vault token is no longer valid'],
  expiring: ['warn', 'a configured Vault token expires'],
  renewed: ['debug', 'Vault token renewed'],
  revoked: ['debug', 'Vault token revoked'],
} as const satisfies Record<SessionEvent['type'], readonly [keyof Log, string]>;

function logSession(log: Log, event: SessionEvent): void {
  const [level, message] = SESSION_LINES[event.type];
  log[level](event.type === 'expiring' ? `${message} at ${new Date(event.expiresAt).toISOString()}` : message, {
    vault: event.addr,
    identity: event.identity,
    ...('error' in event ? { error: event.error } : {}),
    ...('retryAfterMs' in event ? { retryInMs: event.retryAfterMs } : {}),
  });
}
