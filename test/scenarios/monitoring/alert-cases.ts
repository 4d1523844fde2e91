/**
 * For each alert: series for which it fires, and similar series for which it must not fire. The series have the labels
 * that a ServiceMonitor adds.
 */

export interface AlertCase {
  readonly alert: string;
  /** Series for which the alert fires: their values in promtool's notation, one for each minute. */
  readonly fires: Readonly<Record<string, string>>;
  /** Nearly the same series, for which the alert does not fire. */
  readonly quiet: Readonly<Record<string, string>>;
  /** The alert fires at this time, in minutes. */
  readonly after: number;
  /** The alert does not fire yet at this time, in minutes. `undefined`: not tested. */
  readonly notAt?: number;
  /** Labels of the alert besides `severity`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly description: string;
}

const TARGET = { namespace: 'keyferry', job: 'keyferry' };
const POD = { ...TARGET, instance: 'pod-a' };

/** A series in promtool's notation: `name{label="value"}`. */
function series(name: string, labels: Readonly<Record<string, string>> = {}, target = POD): string {
  const pairs = Object.entries({ ...target, ...labels }).map(([key, value]) => `${key}="${value}"`);
  return `${name}{${pairs.join(',')}}`;
}

const rule = (fault: string, reason: string): string =>
  series('keyferry_rule_ready', { system: 'mirrors', rule: 'app/db', rule_namespace: 'app', fault, reason });
const requests = (code: string): string =>
  series('keyferry_kube_requests_total', { cluster: 'local', method: 'GET', code });
const vaultRequests = (code: string): string =>
  series('keyferry_vault_requests_total', { vault: 'https://v', operation: 'GET', code });
const bucket = (le: string): string => series('keyferry_copy_duration_seconds_bucket', { system: 'mirrors', le });
const WATCH = { cluster: 'local', kind: 'secrets', watch: 'copies' };

export const ALERT_CASES: readonly AlertCase[] = [
  {
    alert: 'KeyferryDown',
    fires: {},
    quiet: { [series('keyferry_build_info', { version: '1', node: '24' })]: '1x20' },
    after: 6,
    notAt: 4,
    labels: {},
    description: 'No process of Keyferry was scraped for 5 minutes. Copies are not updated if none runs.',
  },
  {
    alert: 'KeyferryNoLeader',
    fires: { [series('keyferry_leader')]: '0x20', [series('keyferry_leader', { instance: 'pod-b' })]: '0x20' },
    quiet: { [series('keyferry_leader')]: '0x20', [series('keyferry_leader', { instance: 'pod-b' })]: '1x20' },
    after: 6,
    notAt: 4,
    labels: TARGET,
    description: 'keyferry: every process is a standby. Nothing is copied.',
  },
  {
    alert: 'KeyferryRestarts',
    fires: {
      [series('keyferry_build_info', { version: '1', node: '24' })]: '1x60',
      [series('process_start_time_seconds')]: '100 100 200 300 400x57',
    },
    quiet: {
      [series('keyferry_build_info', { version: '1', node: '24' })]: '1x60',
      [series('process_start_time_seconds')]: '100 100 200 200 400x57',
      // The restarts of another program do not count.
      [series('process_start_time_seconds', { instance: 'other' })]: '100 100 200 300 400x57',
    },
    after: 10,
    labels: POD,
    description: 'pod-a started 3 times more within the last hour.',
  },
  {
    alert: 'KeyferryRulesFailing',
    fires: {
      [series('keyferry_rules', { system: 'mirrors', fault: 'operator', reason: 'Forbidden' })]: '2x30',
      // The reason of the failing rules changes, and the alert still fires.
      [series('keyferry_rules', { system: 'mirrors', fault: 'operator', reason: 'VaultError' })]: '_x10 1x20',
    },
    quiet: {
      [series('keyferry_rules', { system: 'mirrors', fault: 'user', reason: 'NoSecret' })]: '2x30',
      [series('keyferry_rules', { system: 'mirrors', fault: 'operator', reason: 'Forbidden' })]: '2x5 stale _x2 2x20',
    },
    after: 16,
    notAt: 14,
    labels: { ...TARGET, system: 'mirrors' },
    description: '3 rules of mirrors are not ready because of a permission, a server or Keyferry.',
  },
  {
    alert: 'KeyferryRuleNeedsAuthor',
    fires: { [rule('user', 'NoSecret')]: '0x90' },
    quiet: { [rule('operator', 'Forbidden')]: '0x90', [rule('none', 'Ready')]: '1x90' },
    after: 61,
    notAt: 59,
    labels: { ...TARGET, system: 'mirrors', rule: 'app/db', rule_namespace: 'app', reason: 'NoSecret' },
    description: 'mirrors app/db is not ready: NoSecret.',
  },
  {
    alert: 'KeyferryRuleStuck',
    fires: { [rule('none', 'Pending')]: '0x90' },
    quiet: { [rule('none', 'Pending')]: '0x20 _x100', [rule('none', 'Ready')]: '_x20 1x100' },
    after: 31,
    notAt: 29,
    labels: { ...TARGET, system: 'mirrors', rule: 'app/db', rule_namespace: 'app' },
    description: 'mirrors app/db has been under way for 30 minutes.',
  },
  {
    alert: 'KeyferryCopiesSlow',
    fires: { [bucket('30')]: '0x60', [bucket('60')]: '0+10x60', [bucket('+Inf')]: '0+10x60' },
    quiet: { [bucket('30')]: '0+10x60', [bucket('60')]: '0+10x60', [bucket('+Inf')]: '0+10x60' },
    after: 20,
    notAt: 10,
    labels: { ...TARGET, system: 'mirrors' },
    description: 'mirrors: one copy in a hundred is written 59.7s after its change, or later.',
  },
  {
    alert: 'KeyferryQueueStuck',
    fires: { [series('keyferry_queue_oldest_age_seconds', { queue: 'targets' })]: '0 70x20' },
    quiet: { [series('keyferry_queue_oldest_age_seconds', { queue: 'targets' })]: '50x20' },
    after: 7,
    notAt: 5,
    labels: { ...TARGET, queue: 'targets' },
    description: 'The oldest key of the queue targets has waited for 1m 10s.',
  },
  {
    alert: 'KeyferryWatchBroken',
    fires: {
      [series('keyferry_watch_connected', WATCH)]: '0x20',
      [series('keyferry_watch_connected', { ...WATCH, watch: 'other' })]: '1x20',
    },
    quiet: { [series('keyferry_watch_connected', WATCH)]: '1x3 0x3 1x20' },
    after: 6,
    notAt: 4,
    labels: { ...POD, cluster: 'local', kind: 'secrets' },
    description: 'Keyferry does not see changes of secrets in the cluster local.',
  },
  {
    alert: 'KeyferryWatchSilent',
    fires: {
      [series('keyferry_watch_connected', WATCH)]: '1x20',
      [series('keyferry_watch_last_activity_seconds', WATCH)]: '420x20',
    },
    quiet: {
      // This watch belongs to an API that is not installed.
      [series('keyferry_watch_last_activity_seconds', { ...WATCH, watch: 'other' })]: '9000x20',
      [series('keyferry_watch_connected', WATCH)]: '1x20',
      [series('keyferry_watch_last_activity_seconds', WATCH)]: '320x20',
    },
    after: 6,
    notAt: 4,
    labels: { ...POD, cluster: 'local', kind: 'secrets' },
    description: 'secrets in the cluster local: nothing for 7m 0s. A healthy watch is opened again before that.',
  },
  {
    alert: 'KeyferryApiErrors',
    fires: { [requests('200')]: '0+80x60', [requests('503')]: '0+10x60', [requests('error')]: '0+10x60' },
    quiet: { [requests('200')]: '0+95x60', [requests('503')]: '0+5x60', [requests('404')]: '0+50x60' },
    after: 20,
    notAt: 8,
    labels: { ...TARGET, cluster: 'local' },
    description: '20% of the requests to the cluster local fail.',
  },
  {
    alert: 'KeyferryManagementClusterDown',
    fires: { [series('kubelb_ccm_kubelb_cluster_connected')]: '0x20' },
    quiet: { [series('kubelb_ccm_kubelb_cluster_connected')]: '0x3 1x20' },
    after: 6,
    notAt: 4,
    labels: TARGET,
    description: 'keyferry: SyncSecrets of this cluster are not copied.',
  },
  {
    alert: 'KeyferryVaultErrors',
    fires: { [vaultRequests('200')]: '0+50x60', [vaultRequests('503')]: '0+50x60' },
    // 403: Vault's policy forbids the path. Only the author of the rule can repair this, so the alert does not fire.
    quiet: { [vaultRequests('200')]: '0+50x60', [vaultRequests('403')]: '0+50x60' },
    after: 20,
    notAt: 8,
    labels: { ...TARGET, vault: 'https://v' },
    description: '50% of the requests to https://v fail.',
  },
  {
    alert: 'KeyferryVaultLoginsFail',
    fires: {
      [series('keyferry_vault_logins_total', { vault: 'https://v', method: 'auth/approle', result: 'error' })]:
        '0+1x60',
    },
    quiet: {
      [series('keyferry_vault_logins_total', { vault: 'https://v', method: 'auth/approle', result: 'error' })]:
        '0 1x60',
      [series('keyferry_vault_logins_total', { vault: 'https://v', method: 'auth/approle', result: 'ok' })]: '0+1x60',
    },
    after: 30,
    notAt: 10,
    labels: { ...TARGET, vault: 'https://v', method: 'auth/approle' },
    description: 'https://v refuses logins with auth/approle. Vault locks an AppRole after five.',
  },
  {
    alert: 'KeyferryVaultLeasesOverdue',
    fires: { [series('keyferry_vault_leases', { vault: 'https://v', age: 'overdue' })]: '2x20' },
    quiet: {
      [series('keyferry_vault_leases', { vault: 'https://v', age: 'old' })]: '2x20',
    },
    after: 6,
    notAt: 4,
    labels: { ...TARGET, vault: 'https://v' },
    description:
      '2 leases of https://v should have been renewed or replaced. When they end, applications cannot log in.',
  },
];

/** The series in all cases, each with its name and the labels that Keyferry itself sets. */
export function usedSeries(): { readonly name: string; readonly labels: readonly string[] }[] {
  const texts = new Set(ALERT_CASES.flatMap(({ fires, quiet }) => Object.keys({ ...fires, ...quiet })));
  return [...texts].map((text) => {
    const labels = [...text.matchAll(/(\w+)="/g)].map(([, key = '']) => key);
    return { name: text.slice(0, text.indexOf('{')), labels: labels.filter((key) => !Object.hasOwn(POD, key)) };
  });
}
