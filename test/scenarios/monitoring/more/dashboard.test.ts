/**
 * Tests the queries of the dashboard and the alerts on a real Prometheus that scrapes a real operator. The operator
 * runs all controllers, with rules that are ready and rules that are not.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { installEsoCrds } from '../../../servers/external-secrets.ts';
import { findPostgres } from '../../../servers/postgres.ts';
import { Prometheus } from '../../../servers/prometheus.ts';
import { databaseRole } from '../../../servers/vault-database.ts';
import { parseMetrics } from '../../../support/prometheus.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { HOME } from '../../mirrors/support.ts';
import { policy, VaultScene } from '../../mirrors-vault/support.ts';
import { usedSeries } from '../alert-cases.ts';
import { ALERTS_FILE, readAlerts, readQueries } from '../files.ts';

const postgres = findPostgres();
/** Panels that show nothing as long as nothing fails. */
const EMPTY_IN_HEALTH = ['Watches that were opened again after a failure', 'Events that were not sent'];
/** Panels that show nothing without dynamic credentials, which need PostgreSQL. */
const WITH_DATABASE = ['Vault leases by age'];
const DENIED = 'k8s-replicator/replicate-from';

describe('the dashboard', () => {
  const resources = new AsyncDisposableStack();
  let prometheus: Prometheus;
  let text = '';

  before(async () => {
    const scene = 'bin' in postgres ? (await VaultScene.openWithDatabase('mongodb')).scene : await VaultScene.open();
    resources.defer(() => scene.close());
    const { mirrors, vault } = scene;
    // With --controllers=generator, the operator is ready only if the CRDs of External Secrets Operator exist.
    await installEsoCrds(mirrors.plane);
    await mirrors.namespaces('team-a', 'tenant-primary');
    const operator = await mirrors.operator({
      args: [
        '--controllers=mirrors,replicator,generator,syncsecret-manager,syncsecret-ccm',
        '--syncsecret-cluster-name=primary',
        `--syncsecret-kubelb-kubeconfig=${mirrors.plane.kubeconfigPath}`,
      ],
    });
    prometheus = resources.use(
      await Prometheus.start({ targets: { keyferry: new URL(operator.statusUrl).host }, ruleFiles: [ALERTS_FILE] }),
    );
    // These objects come after the first scrape, so that the counters grow and the rates show something.
    const read = policy({ 'mongodb/creds/*': ['read'], 'secret/*': ['read', 'create', 'update'] });
    await scene.tokenSecret('vault-token', read);
    await scene.credential('wrong-token', { token: 'wrong' });
    await mirrors.secret(HOME, 'db', { password: 'a' });
    await mirrors.mirror('db', ['team-a'], { source: { name: 'db' } });
    await mirrors.mirror('no-source', ['team-a'], { source: { name: 'missing' } });
    await scene.toVault('to-vault', { name: 'db' }, scene.block('secret/data/db', 'vault-token'));
    await scene.toVault('refused', { name: 'db' }, scene.block('secret/data/other', 'wrong-token'));
    // No server listens at this address.
    const unreachable = { addr: 'http://127.0.0.1:1' };
    await scene.toVault('down', { name: 'db' }, scene.block('secret/data/down', 'vault-token', unreachable));
    if ('bin' in postgres) {
      await databaseRole(vault, 'mongodb', 'app', { ttl: '1h' });
      await scene.fromVault('leased', scene.block('mongodb/creds/app', 'vault-token'), ['team-a']);
    }
    await mirrors.secret(HOME, 'puller', {}, { metadata: { annotations: { [DENIED]: `${HOME}/db` } } });
    await mirrors.api.create({
      apiVersion: 'kubelb.k8c.io/v1alpha1',
      kind: 'SyncSecret',
      metadata: { namespace: 'team-a', name: 'sync' },
      data: mirrors.data({ key: 'b' }),
    });
    const isScraped = async (query: string): Promise<boolean> => (await prometheus.query(query)).length > 0;
    const awaited = [
      'keyferry_rule_ready{system="mirrors", rule="default/db", reason="Ready"} == 1',
      'keyferry_rule_ready{system="mirrors", rule="default/no-source", rule_namespace="default", fault="user", reason="NoSecret"} == 0',
      'keyferry_rule_ready{system="mirrors", rule="default/refused", fault="user"} == 0',
      'keyferry_rule_ready{system="replicator", rule="Secret/default/puller", fault="user", reason="Denied"} == 0',
      'keyferry_rule_ready{system="syncsecret-ccm", rule="team-a/sync"} == 1',
      'keyferry_rule_ready{system="mirrors", rule="default/down", fault="operator", reason="VaultError"} == 0',
      'rate(keyferry_copy_duration_seconds_count{system="mirrors"}[1m]) > 0',
      'keyferry_vault_versions_written_total > 0',
      'keyferry_vault_logins_total{result="error"} > 0',
      ...('bin' in postgres ? ['keyferry_vault_leases{age="fresh"} == 1'] : []),
    ];
    for (const query of awaited) {
      await waitFor(() => isScraped(query), {
        message: () => `${query}; the end of the log:\n${mirrors.tail()}`,
      });
    }
    text = await operator.metrics();
  });
  after(() => resources.disposeAsync());

  it('every query of the dashboard returns data, except in panels that are empty while nothing fails', async () => {
    const empty: string[] = [];
    const queries = readQueries();
    assert.ok(queries.length > 30);
    for (const { panel, expr } of queries) {
      const results = await waitFor(
        async () => {
          const found = await prometheus.query(expr);
          return (found.length > 0 || EMPTY_IN_HEALTH.includes(panel) || WITH_DATABASE.includes(panel)) && found;
        },
        { message: `${panel}: ${expr}` },
      );
      if (results.length === 0) empty.push(panel);
    }
    const excused = 'bin' in postgres ? EMPTY_IN_HEALTH : [...EMPTY_IN_HEALTH, ...WITH_DATABASE];
    assert.deepEqual(
      empty.filter((panel) => !excused.includes(panel)),
      [],
    );
  });

  it('the dashboard and the alerts use only metrics that the operator exports', () => {
    const names = new Set(
      [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].flatMap(([, name = '', type]) => {
        return type === 'histogram' ? [name, `${name}_bucket`, `${name}_count`, `${name}_sum`] : [name];
      }),
    );
    const expressions = [...readQueries(), ...readAlerts()].map(({ expr }) => expr).join('\n');
    const used = new Set(expressions.match(/\b(keyferry|kubelb|process|nodejs|mirrors)_\w+/g));
    assert.ok(used.size > 20);
    assert.deepEqual(
      [...used].filter((name) => !names.has(name)),
      [],
    );
  });

  it("the series in the tests of the alerts have the labels of the operator's real series", () => {
    const real = new Map(parseMetrics(text).map(({ name, labels }) => [name, Object.keys(labels)]));
    const needed = usedSeries().filter(({ name }) => !(name === 'keyferry_vault_leases' && 'missing' in postgres));
    for (const { name, labels } of needed) {
      assert.deepEqual(labels.toSorted(), real.get(name)?.toSorted(), name);
    }
  });

  it('Prometheus evaluates all alerts without an error; mistakes of authors raise other alerts than mistakes of the operator', async () => {
    const healthy = Object.fromEntries(readAlerts().map(({ alert }) => [alert, 'ok']));
    assert.deepEqual(await prometheus.ruleHealth(), healthy);
    const found = async (name: string): ReturnType<Prometheus['query']> =>
      await prometheus.query(readAlerts().find(({ alert }) => alert === name)?.expr ?? '');
    const failing = (await found('KeyferryRulesFailing')).map(({ metric, value }) => [metric['system'], value]);
    assert.deepEqual(failing, [['mirrors', 1]]);
    const rules = (await found('KeyferryRuleNeedsAuthor')).map(({ metric }) => metric['rule'] ?? '');
    assert.deepEqual(rules.toSorted(), ['Secret/default/puller', 'default/no-source', 'default/refused']);
  });
});
