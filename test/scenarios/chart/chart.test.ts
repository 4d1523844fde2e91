/**
 * The real Helm renders the chart and installs it in a real cluster. There the operator runs with the permissions of
 * its ServiceAccount.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { realpath, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';

import { findControllerCommand } from '../../../src/config/commands.ts';
import { CONTROLLERS } from '../../../src/config/controller-names.ts';
import { FORBIDDEN_TYPES } from '../../../src/copy/model/kind.ts';
import { ensureServer } from '../../servers/ensure.ts';
import { Reaper } from '../../servers/reaper.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import type { Json } from '../../support/api.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import { rightsIn, type RoleFile } from '../../support/granted.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { rowsOf } from '../../support/long.ts';
import { reviewRights, rolesIn } from '../../support/permissions.ts';
import { requestToken, serviceAccountUser } from '../../support/service-account.ts';
import { waitFor } from '../../support/wait-for.ts';
import {
  CHART,
  helm,
  IMAGE,
  KUBERNETES,
  NAMESPACE,
  objectsIn,
  one,
  RELEASE,
  settingsOf,
  template,
  valueFlags,
} from './helm.ts';

const MANIFEST = path.join(CHART, '../../keyferry.yaml');
/** Options of execFile for programs with a long output. */
const MUCH = { maxBuffer: 32 * 1024 * 1024 };
const OFF = { 'mirrors.enabled': false };
const BOTH = { 'mirrors.enabled': true, 'replicator.enabled': true };
const LEASES = ['coordination.k8s.io/leases: get create update'];
const COPIES = [
  'core/namespaces: list watch',
  'core/secrets: get list watch create patch delete',
  'core/events: create patch',
];
const MIRRORS = [
  'mirrors.kts.studio/secretmirrors: get list watch patch',
  'mirrors.kts.studio/secretmirrors/status: patch',
];
const CONFIG_MAPS = ['core/configmaps: get list watch create patch delete'];
const REPORTING = { 'mittwald.enabled': true, 'mittwald.reportUnsupported': true };
/** A short run renders the chart with each system alone, with each pair, with all, and with all but one. */
const FEW = 8 + 28 + 1 + 8;
const UNSUPPORTED = [
  'rbac.authorization.k8s.io/roles: list watch',
  'rbac.authorization.k8s.io/rolebindings: list watch',
  'core/serviceaccounts: list watch',
];

/** Renders the chart with values that it must refuse. @returns the error message of Helm */
async function refusal(values: Readonly<Record<string, unknown>>): Promise<string> {
  const args = ['template', RELEASE, CHART, `--kube-version=${KUBERNETES}`, ...valueFlags({ ...IMAGE, ...values })];
  const { code, stderr } = await helm(args);
  assert.notEqual(code, 0, 'the values were accepted');
  return stderr;
}

const argsOf = (deployment: Json): string[] => deployment.spec.template.spec.containers[0].args;

describe('the chart', () => {
  it('helm lint finds no mistake in the chart', async () => {
    const { code, stdout } = await helm(['lint', '--strict', `--kube-version=${KUBERNETES}`, CHART]);
    assert.equal(code, 0, stdout);
  });

  it('the chart grants each system (mirrors, replicator, …) its own permissions, and none for a system that is off', async () => {
    const ofGenerator = (await rolesOf({ ...OFF, 'generator.enabled': true }))[`ClusterRole ${RELEASE}`];
    const table: [Readonly<Record<string, unknown>>, string[]][] = [
      [BOTH, [...COPIES, ...MIRRORS, ...CONFIG_MAPS]],
      [{}, [...COPIES, ...MIRRORS]],
      [{ 'replicator.enabled': true }, [...COPIES, ...CONFIG_MAPS]],
      [{ 'mittwald.enabled': true }, [...COPIES, ...CONFIG_MAPS]],
      [REPORTING, [...COPIES, ...CONFIG_MAPS, ...UNSUPPORTED]],
      [{ ...OFF, 'syncSecret.manager.enabled': true }, clusterRights('rbac-syncsecret-manager.yaml')],
      [{ ...OFF, 'kubelb.tenantName': 'primary' }, clusterRights('rbac-syncsecret-ccm.yaml')],
      [
        { ...OFF, 'kubelb.tenantName': 'primary', 'kubelb.enableSecretSynchronizer': true },
        clusterRights('rbac-syncsecret-ccm.yaml', 'rbac-syncsecret-synchronizer.yaml'),
      ],
      [{ ...OFF, 'generator.enabled': true }, clusterRights('rbac-generator.yaml')],
    ];
    for (const [values, rights] of table) {
      const roles = await rolesOf(values);
      assert.deepEqual(roles[`ClusterRole ${RELEASE}`]?.toSorted(), rights.toSorted(), JSON.stringify(values));
      assert.deepEqual(roles[`Role ${RELEASE}-leader-election`], LEASES);
    }
    assert.ok(ofGenerator?.every((right) => !right.startsWith('core/secrets')));
  });

  it('mittwald watches Roles, RoleBindings and ServiceAccounts only if the chart may give it the permissions', async () => {
    for (const [values, isOn] of [
      [{ 'mittwald.enabled': true }, false],
      [REPORTING, true],
    ] as const) {
      const deployment = one(objectsIn(await template(values)), 'Deployment');
      const env = settingsOf(deployment);
      const config = findControllerCommand('run')?.configure([], { env, hostname: 'h', uniqueId: 'u' });
      const { replicateRoles, replicateRoleBindings, replicateServiceAccounts } = config?.mittwald ?? {};
      assert.deepEqual([replicateRoles, replicateRoleBindings, replicateServiceAccounts], [isOn, isOn, isOn]);
    }
  });

  it('the chart does not let the ClusterRole `view` read SyncSecrets, because SyncSecrets contain values', async () => {
    const values = { 'mirrors.enabled': true, 'syncSecret.manager.enabled': true, 'rbac.editorRole': true };
    const roles = objectsIn(await template(values)).filter(({ kind }) => kind === 'ClusterRole');
    const readersFor = (resource: string): Record<string, string[]> =>
      Object.fromEntries(
        ['view', 'edit', 'admin'].map((to) => [
          to,
          roles
            .filter(({ metadata }) => metadata.labels[`rbac.authorization.k8s.io/aggregate-to-${to}`] === 'true')
            .filter(({ rules }) => rules.some(({ resources }: Json) => resources.includes(resource)))
            .map(({ metadata }) => metadata.name),
        ]),
      );
    const ofMirrors = [`${RELEASE}-viewer`, `${RELEASE}-editor`];
    assert.deepEqual(readersFor('secretmirrors'), { view: [`${RELEASE}-viewer`], edit: ofMirrors, admin: ofMirrors });
    const ofSyncSecrets = [`${RELEASE}-syncsecret-viewer`, `${RELEASE}-syncsecret-editor`];
    assert.deepEqual(readersFor('syncsecrets'), { view: [], edit: ofSyncSecrets, admin: ofSyncSecrets });
  });

  it('with a list of namespaces for the generator, the chart makes Roles there in place of a ClusterRole', async () => {
    const roles = await rolesOf({
      ...OFF,
      'generator.enabled': true,
      'generator.namespaces': ['apps'],
      'generator.credentialsIn': [{ namespace: 'apps', secrets: ['vault-token'] }],
    });
    assert.equal(roles[`ClusterRole ${RELEASE}`], undefined);
    assert.deepEqual(roles[`Role ${RELEASE}-generator`], [
      'external-secrets.io/externalsecrets: list watch patch',
      'external-secrets.io/externalsecrets/status: patch',
      'external-secrets.io/secretstores: list watch',
      'core/events: create patch',
    ]);
    assert.deepEqual(roles[`Role ${RELEASE}-generator-credentials`], ['core/secrets vault-token: get list watch']);
  });

  it('with a list of namespaces for all systems, the chart makes Roles there in place of all ClusterRoles', async () => {
    const values = { ...BOTH, namespaces: ['team-a', 'team-b'], 'generator.enabled': true };
    const roles = await rolesOf(values);
    assert.deepEqual(
      Object.keys(roles).filter((name) => name.startsWith('ClusterRole')),
      [],
    );
    const isWide = (right: string): boolean => right.startsWith('core/namespaces');
    const expected = [...COPIES, ...MIRRORS, ...CONFIG_MAPS].filter((right) => !isWide(right));
    assert.deepEqual(roles[`Role ${RELEASE}`]?.toSorted(), expected.toSorted());
    assert.ok(roles[`Role ${RELEASE}-generator`]);
    const reporting = await rolesOf({ ...REPORTING, namespaces: ['team-a'] });
    assert.ok(UNSUPPORTED.every((right) => reporting[`Role ${RELEASE}`]?.includes(right)));
    assert.match(await refusal({ ...values, 'syncSecret.manager.enabled': true }), /namespaces: SyncSecrets need/);
  });

  it('the chart refuses namespaceSelector, which would be all namespaces, and names namespaces', async () => {
    assert.match(
      await refusal({ ...BOTH, namespaceSelector: 'team in (a,b)' }),
      /there is no namespaceSelector any more: list the namespaces in namespaces/,
    );
    // Values that were kept from an older release have the empty default.
    assert.ok(argsOf(one(objectsIn(await template({ ...BOTH, namespaceSelector: '' })), 'Deployment')).length > 0);
  });

  it("the chart accepts those values of the originals' charts that have a meaning for Keyferry", async () => {
    const deployment = one(
      objectsIn(
        await template({
          annotationsPrefix: 'example.com',
          allowAll: true,
          ignoreUnknown: true,
          resyncPeriod: '1h',
          runReplicators: ['secret'],
          'replicator.sourceGrace': '0',
          createWithLabels: '',
          'pod.annotations': { a: 'b' },
          kubelb: { tenantName: 'primary', clusterSecretName: 'link', logLevel: 'debug' },
        }),
      ),
      'Deployment',
    );
    assert.deepEqual(argsOf(deployment), [
      'run',
      '--status-address=:8080',
      '--log-level=debug',
      '--leader-elect',
      '--replicator-resync-period=1h',
      '--source-grace=0',
      '--replicator-create-with-labels=',
      '--syncsecret-cluster-name=primary',
      '--syncsecret-kubelb-kubeconfig=/etc/keyferry/management/kubeconfig',
    ]);
    assert.deepEqual(settingsOf(deployment), {
      KEYFERRY_CONTROLLERS: 'replicator,syncsecret-ccm',
      KEYFERRY_LEADER_ELECT_LEASE_NAME: 'keyferry',
      KEYFERRY_REPLICATOR_ANNOTATIONS_PREFIX: 'example.com',
      KEYFERRY_REPLICATOR_ALLOW_ALL: 'true',
      KEYFERRY_REPLICATOR_IGNORE_UNKNOWN: 'true',
      KEYFERRY_REPLICATOR_RUN_REPLICATORS: 'secret',
    });
    const { metadata, spec } = deployment.spec.template;
    assert.deepEqual(metadata.annotations, { a: 'b' });
    assert.equal(spec.volumes[0].secret.secretName, 'link');
    assert.equal((await template({ installCRDs: false })).includes('kind: CustomResourceDefinition'), false);
    const ofManager = { ...OFF, 'syncSecret.manager.enabled': true, 'kubelb.debug': true, 'metrics.port': 9443 };
    const propagated = {
      'syncSecret.manager.servedNamespaces': ['tenant-.*'],
      'syncSecret.propagateLabels': ['app', 'x.*'],
      'syncSecret.propagateAnnotations': ['.*'],
    };
    const manager = one(objectsIn(await template({ ...ofManager, ...propagated })), 'Deployment');
    const args = argsOf(manager);
    for (const arg of ['--log-level=debug', '--status-address=:9443', '--syncsecret-served-namespaces=tenant-.*']) {
      assert.ok(args.includes(arg), args.join(' '));
    }
    const settings = settingsOf(manager);
    assert.equal(settings['KEYFERRY_SYNCSECRET_PROPAGATE_LABELS'], 'app,x.*');
    assert.equal(settings['KEYFERRY_SYNCSECRET_PROPAGATE_ANNOTATIONS'], '.*');
  });

  it('the chart can be rendered with every combination of systems, and Keyferry accepts the arguments', async () => {
    const switches = [
      ['mirrors.enabled', 'mirrors'],
      ['replicator.enabled', 'replicator'],
      ['reflector.enabled', 'reflector'],
      ['configSyncer.enabled', 'config-syncer'],
      ['mittwald.enabled', 'mittwald'],
      ['syncSecret.manager.enabled', 'syncsecret-manager'],
      ['syncSecret.ccm.enabled', 'syncsecret-ccm'],
      ['generator.enabled', 'generator'],
    ] as const;
    const isIn = (combination: number, index: number): boolean => Math.floor(combination / 2 ** index) % 2 === 1;
    const size = (combination: number): number => switches.filter((_, index) => isIn(combination, index)).length;
    const combinations = Array.from({ length: 2 ** switches.length - 1 }, (_, n) => n + 1).toSorted(
      (a, b) => Math.min(size(a), 9 - size(a)) - Math.min(size(b), 9 - size(b)),
    );
    for (const combination of rowsOf(combinations, FEW)) {
      const isOn = (index: number): boolean => isIn(combination, index);
      const values = Object.fromEntries(switches.map(([key], index) => [key, isOn(index)]));
      const objects = objectsIn(await template({ ...values, 'syncSecret.ccm.clusterName': 'primary' }));
      const deployment = one(objects, 'Deployment');
      const [command = '', ...flags] = argsOf(deployment);
      const env = settingsOf(deployment);
      const config = findControllerCommand(command)?.configure(flags, { env, hostname: 'h', uniqueId: 'u' });
      assert.deepEqual(
        config?.controllers,
        CONTROLLERS.filter((name) => switches.some(([, one], index) => one === name && isOn(index))),
      );
      const crds = objects.filter(({ kind }) => kind === 'CustomResourceDefinition').length;
      assert.equal(crds, Number(isOn(0)) + Number(isOn(5) || isOn(6)), JSON.stringify(values));
    }
  });

  it("by default the chart turns on SecretMirrors alone; a value of another original's chart turns on that original's system instead", async () => {
    const table: [Readonly<Record<string, unknown>>, string][] = [
      [{}, 'mirrors'],
      [{ 'generator.enabled': true }, 'generator'],
      [{ kubelb: { tenantName: 'primary' } }, 'syncsecret-ccm'],
      [{ allowAll: false }, 'replicator'],
      [{ allowAll: true, 'replicator.enabled': false }, 'mirrors'],
      [{ 'replicator.enabled': true }, 'replicator'],
      [{ 'reflector.enabled': true }, 'reflector'],
      [{ 'configSyncer.enabled': true }, 'config-syncer'],
      [{ 'mittwald.enabled': true }, 'mittwald'],
      [BOTH, 'mirrors,replicator'],
    ];
    for (const [values, controllers] of table) {
      const settings = settingsOf(one(objectsIn(await template(values)), 'Deployment'));
      assert.equal(settings['KEYFERRY_CONTROLLERS'], controllers, JSON.stringify(values));
    }
  });

  it('the chart passes the limits for all rules to Keyferry as environment variables, which a command in its container inherits', async () => {
    const limits = {
      'limits.sourceNamespaces': ['platform', 'infra-.*'],
      'limits.destinationNamespaces': ['selector:tier in (dev,test)'],
      'limits.excludedNamespaces': ['kube-.*'],
      'limits.requireConsent': true,
      'limits.replicatorPush': false,
      adoptOrphans: true,
    };
    const deployment = one(objectsIn(await template({ ...BOTH, ...limits })), 'Deployment');
    const env = settingsOf(deployment);
    assert.deepEqual(env, {
      KEYFERRY_CONTROLLERS: 'mirrors,replicator',
      KEYFERRY_LEADER_ELECT_LEASE_NAME: 'keyferry',
      KEYFERRY_SOURCE_NAMESPACES: 'platform,infra-.*',
      KEYFERRY_DESTINATION_NAMESPACES: 'selector:tier in (dev,test)',
      KEYFERRY_EXCLUDED_NAMESPACES: 'kube-.*',
      KEYFERRY_REQUIRE_CONSENT: 'true',
      KEYFERRY_REPLICATOR_PUSH: 'false',
      KEYFERRY_ADOPT_ORPHANS: 'true',
    });
    const config = findControllerCommand('run')?.configure([], { env, hostname: '', uniqueId: '' });
    assert.deepEqual(config?.limits.destinationNamespaces, { selector: 'tier in (dev,test)' });
    assert.match(await refusal({ 'limits.excludedNamespaces': ['a,b'] }), /excludedNamespaces/);
    const advice = 'is a regular expression, in which * repeats one character: for any text, write .*';
    for (const name of ['sourceNamespaces', 'destinationNamespaces', 'excludedNamespaces']) {
      const refused = await refusal({ [`limits.${name}`]: ['infra', 'kube-*'] });
      assert.ok(refused.includes(`limits.${name}: "kube-*" ${advice}`), refused);
    }
    // These patterns are accepted, as by the flag: an escape (`\d`), and a `*` that stands for itself (`[*]`, `\*`).
    await template({ ...BOTH, 'limits.excludedNamespaces': ['kube-\\d*', 'a[*]b', 'x\\*'] });
  });

  it('the settings of config-syncer are those of commands, too, and the kubeconfig with other clusters is mounted', async () => {
    const values = {
      'configSyncer.enabled': true,
      'configSyncer.clusterName': 'unicorn',
      'configSyncer.sourceNamespace': 'configs',
      'configSyncer.kubeconfigSecret': 'clusters',
    };
    const deployment = one(objectsIn(await template(values)), 'Deployment');
    const env = settingsOf(deployment);
    const { containers, volumes } = deployment.spec.template.spec;
    const [, ...flags] = containers[0].args;
    const config = findControllerCommand('run')?.configure(flags, { env, hostname: '', uniqueId: '' });
    const kubeconfigFile = '/etc/keyferry/contexts/kubeconfig';
    assert.deepEqual(config?.configSyncer, { clusterName: 'unicorn', sourceNamespace: 'configs', kubeconfigFile });
    assert.deepEqual(containers[0].volumeMounts, [
      { name: 'contexts', mountPath: path.dirname(kubeconfigFile), readOnly: true },
    ]);
    const items = [{ key: 'kubeconfig', path: 'kubeconfig' }];
    assert.deepEqual(volumes, [{ name: 'contexts', secret: { secretName: 'clusters', items } }]);
  });

  it('the chart passes values for the Pod, such as volumes, environment and probes, to the Deployment', async () => {
    const volume = { name: 'ca', configMap: { name: 'ca' } };
    const mount = { name: 'ca', mountPath: '/etc/ca', readOnly: true };
    const envFrom = [{ secretRef: { name: 'proxy' } }];
    const values = {
      'image.registry': 'registry.example.com/mirror',
      'image.digest': `sha256:${'0'.repeat(64)}`,
      extraVolumes: [volume],
      extraVolumeMounts: [mount],
      envFrom,
      'probes.liveness.failureThreshold': 7,
      strategy: { type: 'Recreate' },
      revisionHistoryLimit: 0,
      hostAliases: [{ ip: '192.0.2.1', hostnames: ['vault.example.com'] }],
      dnsPolicy: 'None',
      dnsConfig: { nameservers: ['192.0.2.53'] },
      runtimeClassName: 'gvisor',
      'serviceAccount.automount': false,
      commonLabels: { team: 'platform' },
      namespaceOverride: 'elsewhere',
      kubelb: { tenantName: 'primary' },
    };
    const objects = objectsIn(await template(values));
    const { metadata, spec } = one(objects, 'Deployment');
    const pod = spec.template.spec;
    const [container] = pod.containers;
    assert.equal(container.image, `registry.example.com/mirror/keyferry@sha256:${'0'.repeat(64)}`);
    assert.deepEqual(pod.volumes.slice(1), [volume]);
    assert.deepEqual(container.volumeMounts.slice(1), [mount]);
    assert.deepEqual(container.envFrom, envFrom);
    const [uid, ...others] = container.env;
    assert.deepEqual(uid, { name: 'POD_UID', valueFrom: { fieldRef: { fieldPath: 'metadata.uid' } } });
    const added = others.filter(({ name }: Json) => !name.startsWith('KEYFERRY_'));
    assert.deepEqual(added, [], 'what values add comes after that');
    assert.equal(container.livenessProbe.failureThreshold, 7);
    assert.equal(container.livenessProbe.periodSeconds, 10);
    assert.deepEqual(spec.strategy, { type: 'Recreate' });
    assert.equal(spec.revisionHistoryLimit, 0);
    assert.deepEqual(pod.hostAliases, values.hostAliases);
    assert.deepEqual([pod.dnsPolicy, pod.dnsConfig], ['None', values.dnsConfig]);
    assert.equal(pod.runtimeClassName, 'gvisor');
    assert.equal(pod.automountServiceAccountToken, false);
    assert.equal(spec.template.metadata.labels.team, 'platform');
    assert.equal(spec.selector.matchLabels.team, undefined);
    assert.equal(metadata.namespace, 'elsewhere');
    const namespaces = objects.flatMap((object) => object.metadata.namespace ?? []);
    assert.deepEqual([...new Set(namespaces)], ['elsewhere']);
    assert.equal(one(objects, 'ClusterRoleBinding').subjects[0].namespace, 'elsewhere');
  });

  it('by default the chart prefers to spread its Pods over nodes; a value `affinity` replaces this', async () => {
    const affinityOf = async (values: Readonly<Record<string, unknown>>): Promise<Json> =>
      one(objectsIn(await template(values)), 'Deployment').spec.template.spec.affinity;
    const [{ podAffinityTerm: term }] = (await affinityOf({})).podAntiAffinity
      .preferredDuringSchedulingIgnoredDuringExecution;
    assert.equal(term.topologyKey, 'kubernetes.io/hostname');
    const affinity = { nodeAffinity: {} };
    assert.deepEqual(await affinityOf({ affinity }), affinity);
  });

  it('the chart sets no user id, as OpenShift requires, and lets a drain evict Pods that are not ready', async () => {
    const objects = objectsIn(await template());
    const { securityContext, containers } = one(objects, 'Deployment').spec.template.spec;
    assert.deepEqual(securityContext, { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } });
    assert.equal(containers[0].securityContext.runAsUser, undefined);
    assert.equal(one(objects, 'PodDisruptionBudget').spec.unhealthyPodEvictionPolicy, 'AlwaysAllow');
  });

  it('the chart installs extraObjects, given as objects or as texts with templates', async () => {
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'plain' } };
    const text = 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: "{{ .Release.Name }}-text" }';
    const objects = objectsIn(await template({ extraObjects: [object, text] }));
    const names: string[] = objects.filter(({ kind }) => kind === 'ConfigMap').map(({ metadata }) => metadata.name);
    assert.deepEqual(names.toSorted(), ['keyferry-text', 'plain']);
  });

  it('if External Secrets Operator is not installed, helm install notes that the generator waits for it', async () => {
    const plane = await startControlPlane({ controllerManager: false });
    try {
      const flags = valueFlags({ ...IMAGE, 'generator.enabled': true });
      const args = ['install', RELEASE, CHART, '--dry-run=server', ...flags];
      const { stdout, stderr } = await helm(args, plane.kubeconfigPath);
      assert.match(stdout, /has no API external-secrets\.io\. The generator waits/, stderr);
    } finally {
      await plane.stop();
    }
  });

  it('the chart refuses an unknown key or an invalid value, and names the key', async () => {
    const table: [Readonly<Record<string, unknown>>, RegExp][] = [
      [{ 'rbacProxy.enabled': true }, /rbacProxy/],
      [{ 'mirrors.regexp': 'full' }, /\/mirrors.*regexp/s],
      [{ 'mirrors.regex': 'glob' }, /\/mirrors\/regex/],
      [{ replicaCount: '2' }, /\/replicaCount/],
      [{ 'image.digest': 'sha256:1' }, /\/image\/digest/],
      [OFF, /no system is on/],
      [{ 'syncSecret.ccm.enabled': true }, /syncSecret\.ccm\.clusterName/],
      [{ 'syncSecret.manager.enabled': true, 'syncSecret.propagateLabels': ['a,b'] }, /propagateLabels/],
      [{ 'leaderElection.enabled': false }, /replicaCount must be 1 without leaderElection\.enabled/],
      [{ 'policies.serviceAccounts': ["x:y'"] }, /\/policies\/serviceAccounts/],
      [{ 'serviceAccount.create': false }, /serviceAccount\.name has to name a ServiceAccount/],
      [{ 'image.repository': '' }, /image\.repository names the image/],
      [{ 'probes.startup.period': 1 }, /\/probes\/startup.*period/s],
      [{ 'podMonitor.interval': 'soon' }, /\/podMonitor\/interval/],
    ];
    for (const [values, message] of table) assert.match(await refusal(values), message);
  });

  it('the chart has alerts, a dashboard, monitors and a NetworkPolicy if the values turn them on', async () => {
    const objects = objectsIn(
      await template({
        'serviceMonitor.enabled': true,
        'prometheusRule.enabled': true,
        'dashboard.enabled': true,
        'networkPolicy.enabled': true,
      }),
    );
    assert.ok(one(objects, 'PrometheusRule').spec.groups[0].rules.length > 0);
    assert.ok(JSON.parse(one(objects, 'ConfigMap').data['keyferry.json']).panels.length > 0);
    assert.equal(one(objects, 'ServiceMonitor').spec.endpoints[0].port, 'metrics');
    const relabelings = [{ action: 'labeldrop', regex: 'pod' }];
    const monitor = { enabled: true, namespace: 'monitoring', relabelings, scrapeTimeout: '5s' };
    const pods = one(objectsIn(await template({ podMonitor: monitor })), 'PodMonitor');
    assert.equal(pods.metadata.namespace, 'monitoring');
    assert.deepEqual(pods.spec.namespaceSelector, { matchNames: [NAMESPACE] });
    const [endpoint] = pods.spec.podMetricsEndpoints;
    assert.deepEqual([endpoint.relabelings, endpoint.scrapeTimeout, endpoint.interval], [relabelings, '5s', '30s']);
    assert.deepEqual(one(objects, 'NetworkPolicy').spec.policyTypes, ['Ingress']);
  });

  it('deploy/keyferry.yaml is what Helm renders from the chart', async () => {
    // Without the CRDs. With them, `kubectl delete -f` would delete the CRDs, and so all objects of users.
    const values = { ...IMAGE, 'crds.install': false };
    const common = ['--namespace=keyferry', `--kube-version=${KUBERNETES}`, ...valueFlags(values)];
    // Without the Pod of `helm test`. `kubectl apply` would run it one time, and then it would stay.
    const args = ['template', RELEASE, CHART, '--skip-tests', ...common];
    const { stdout } = await helm(args);
    const head = [
      '# Keyferry with SecretMirrors, without Helm. Its CRD is in deploy/crds: it is applied before, and stays when this is deleted.',
      '#   kubectl apply --server-side -f deploy/crds/mirrors.kts.studio_secretmirrors.yaml',
      '#   kubectl apply --server-side -f deploy/keyferry.yaml',
      '# Rendered from the chart in deploy/helm/keyferry; a test compares them.',
      'apiVersion: v1',
      'kind: Namespace',
      'metadata:',
      '  name: keyferry',
      '',
    ].join('\n');
    const manifest = `${head}${stdout.replaceAll(/^ {2,}(helm\.sh\/chart|app\.kubernetes\.io\/managed-by): .*\n/gm, '')}`;
    if (process.env['KEYFERRY_WRITE_MANIFEST'] !== undefined) writeFileSync(MANIFEST, manifest);
    assert.ok(existsSync(MANIFEST));
    assert.equal(readFileSync(MANIFEST, 'utf8'), manifest, 'run this test with KEYFERRY_WRITE_MANIFEST=1');
  });
});

it('deploy/ can be the base of a kustomize overlay that changes namespace and image', async () => {
  const folder = await Reaper.shared().temporaryFolder('keyferry-kustomize-');
  const overlay = {
    namespace: 'secrets',
    resources: [path.relative(await realpath(folder), path.dirname(MANIFEST))],
    images: [{ name: 'keyferry', newName: 'registry.example.com/keyferry', newTag: '1.2.3' }],
  };
  await writeFile(path.join(folder, 'kustomization.yaml'), JSON.stringify(overlay));
  const { stdout } = await promisify(execFile)(await ensureServer('kustomize'), ['build', folder], MUCH);
  const objects = objectsIn(stdout);
  const { metadata, spec } = one(objects, 'Deployment');
  assert.equal(metadata.namespace, 'secrets');
  assert.equal(spec.template.spec.containers[0].image, 'registry.example.com/keyferry:1.2.3');
  assert.equal(one(objects, 'Namespace').metadata.name, 'secrets');
  assert.equal(one(objects, 'ClusterRoleBinding').subjects[0].namespace, 'secrets');
});

it('the manifests in deploy/policies/ are what Helm renders from the chart', async () => {
  const folder = path.join(CHART, '../../policies');
  const files = { requesterRights: 'requester-rights', fence: 'fence', protectCopies: 'protect-copies' };
  for (const [key, file] of Object.entries(files)) {
    const flags = valueFlags({ ...IMAGE, [`policies.${key}.enabled`]: true });
    const args = ['template', RELEASE, CHART, '--namespace=keyferry', `--kube-version=${KUBERNETES}`, ...flags];
    const { stdout, stderr } = await helm([...args, '--show-only=templates/policies.yaml']);
    assert.equal(stderr, '');
    const head =
      '# Rendered from the chart, for Keyferry as ServiceAccount keyferry in namespace keyferry; a test compares them.\n';
    const manifest = `${head}${stdout.replaceAll(/^ {2,}(helm\.sh\/chart|app\.kubernetes\.io\/managed-by): .*\n/gm, '')}`;
    const target = path.join(folder, `${file}.yaml`);
    if (process.env['KEYFERRY_WRITE_MANIFEST'] !== undefined) writeFileSync(target, manifest);
    assert.equal(readFileSync(target, 'utf8'), manifest, 'run this test with KEYFERRY_WRITE_MANIFEST=1');
  }
});

describe('the policies', () => {
  const rendered = async (values: Readonly<Record<string, unknown>>): Promise<Map<string, Json>> => {
    const flags = { 'policies.requesterRights.enabled': true, 'policies.fence.enabled': true, ...BOTH, ...values };
    const found = objectsIn(await template(flags)).filter(({ kind }) => kind === 'ValidatingAdmissionPolicy');
    return new Map(found.map((policy) => [policy.metadata.name, policy.spec]));
  };

  it('the admission policies of the chart name the annotations with the prefix that the replicator reads', async () => {
    const table = [
      ['', 'replicate-to'],
      ['/', 'replicate-to'],
      ['x.example', 'x.example/replicate-to'],
      ['x.example/', 'x.example/replicate-to'],
    ];
    for (const [prefix, annotation] of table) {
      const policies = await rendered({ 'replicator.annotationsPrefix': prefix });
      const { matchConditions } = policies.get('keyferry-requester-rights-annotations');
      assert.ok(matchConditions[0].expression.startsWith(`['${annotation}', '${annotation}-namespaces'].exists`));
      const { variables } = policies.get('keyferry-fence');
      const { expression } = variables.find(({ name }: Json) => name === 'isFilled');
      assert.match(expression, new RegExp(`\\['${annotation?.replace('-to', '-from')}'`));
    }
  });

  it('the fence of the chart refuses exactly the types of Secrets that Keyferry never creates', async () => {
    const { validations } = (await rendered({})).get('keyferry-fence');
    const refused = validations.at(-1).expression.match(/ in \[(.*)\]/)?.[1];
    assert.equal(refused, FORBIDDEN_TYPES.map((type) => `'${type}'`).join(', '));
  });

  it("the chart's policies require no right in the mirror's own namespace, except with --mirrors-regex=search, where its name is a pattern", async () => {
    for (const [regex, isFree] of [
      ['full', true],
      ['search', false],
    ] as const) {
      const policies = await rendered({ 'mirrors.regex': regex });
      const { validations } = policies.get('keyferry-requester-rights-mirrors');
      assert.equal(validations[1].expression.includes('== object.metadata.namespace'), isFree, regex);
      const ofAnnotations = policies.get('keyferry-requester-rights-annotations').validations;
      assert.ok(
        ofAnnotations[1].expression.includes('== object.metadata.namespace'),
        'names in annotations are no patterns',
      );
    }
  });
});

describe('a release', () => {
  let plane: ControlPlane;
  let operator: Keyferry | undefined;
  const user = serviceAccountUser(NAMESPACE, RELEASE);
  const values = { ...IMAGE, ...BOTH, 'syncSecret.manager.enabled': true };
  const release = async (...args: string[]): Promise<string> => {
    const answer = await helm([...args, `--namespace=${NAMESPACE}`], plane.kubeconfigPath);
    assert.equal(answer.code, 0, answer.stderr);
    return answer.stdout;
  };
  const deployment = async (): Promise<Json> =>
    await plane.api.find(`/apis/apps/v1/namespaces/${NAMESPACE}/deployments/${RELEASE}`);

  before(async () => {
    plane = await startControlPlane({ audit: true });
  });
  after(async () => {
    await operator?.kill9();
    await plane?.stop();
  });

  it('helm install succeeds, and its notes name the controllers that run', async () => {
    const notes = await release('install', RELEASE, CHART, '--create-namespace', ...valueFlags(values));
    assert.match(notes, /runs mirrors, replicator, syncsecret-manager\./);
    assert.match(notes, /limits\.excludedNamespaces=\{kube-system,kube-public,kube-node-lease\}/);
    assert.equal((await deployment()).spec.replicas, 2);
  });

  it("with the Deployment's arguments and the ServiceAccount's permissions, Keyferry copies with each system and gets no 403", async () => {
    const installed = await deployment();
    const args = argsOf(installed).filter((arg) => !arg.startsWith('--status-address'));
    const kubeconfig = await plane.writeKubeconfig({ token: await requestToken(plane.api, NAMESPACE, RELEASE) });
    operator = await Keyferry.start({
      kubeconfig,
      env: settingsOf(installed),
      command: args[0] ?? '',
      args: [...args.slice(1), `--leader-elect-namespace=${NAMESPACE}`],
    });
    await operator.ready();
    await story();
    const refused = readAuditLog(plane, user).filter(({ code }) => code === 403);
    assert.deepEqual(refused, []);
  });

  it("if helm upgrade turns off a system, it removes that system's permissions", async () => {
    await release('upgrade', RELEASE, CHART, ...valueFlags({ ...values, 'replicator.enabled': false }));
    const token = await requestToken(plane.api, NAMESPACE, RELEASE);
    using own = plane.client({ token });
    const expected = [...COPIES, ...MIRRORS, ...clusterRights('rbac-syncsecret-manager.yaml')];
    await waitFor(async () => (await reviewRights(own, 'default')).every((right) => !right.includes('configmaps')), {
      message: 'the permission for ConfigMaps to go',
    });
    const rights = await reviewRights(own, 'default');
    assert.deepEqual(new Set(rights), new Set(expected));
  });

  it('helm uninstall leaves the CustomResourceDefinitions, the rules and the copies', async () => {
    await operator?.stop();
    const said = await release('uninstall', RELEASE);
    assert.match(said, /secretmirrors\.mirrors\.kts\.studio/);
    assert.equal(await deployment(), undefined);
    const { api } = plane;
    assert.ok(await api.find('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/shared'));
    assert.ok(await api.find('/api/v1/namespaces/team-a/secrets/shared'));
    assert.equal(await api.find(`/apis/rbac.authorization.k8s.io/v1/clusterroles/${RELEASE}`), undefined);
  });

  it('helm install succeeds after helm uninstall, which leaves CustomResourceDefinitions, rules and copies', async () => {
    await release('install', RELEASE, CHART, ...valueFlags(values));
    assert.ok(await plane.api.find('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/shared'));
  });

  /** Lets each system make a copy and delete it. */
  async function story(): Promise<void> {
    const { api } = plane;
    await api.createNamespaces(['team-a']);
    const data = { password: 'b25l' };
    const annotations = { 'k8s-replicator/replicate-to': 'team-a/annotated' };
    await api.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'shared', namespace: 'default' }, data });
    await api.create({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'annotated', namespace: 'default', annotations },
      data: { key: 'value' },
    });
    await api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { name: 'shared', namespace: 'default' },
      spec: { source: { name: 'shared' }, destination: { namespaces: ['team-a'] }, deletePolicy: 'retain' },
    });
    await api.create({
      apiVersion: 'kubelb.k8c.io/v1alpha1',
      kind: 'SyncSecret',
      metadata: { name: 'tls', namespace: 'team-a' },
      data,
    });
    const { metadata } = await api.get('/apis/kubelb.k8c.io/v1alpha1/namespaces/team-a/syncsecrets/tls');
    const copies = ['secrets/shared', 'configmaps/annotated', `secrets/${metadata.uid}`];
    for (const copy of copies) {
      await waitFor(async () => await api.find(`/api/v1/namespaces/team-a/${copy}`), {
        message: () => `${copy} to be made\n${operator?.output.split('\n').slice(-10).join('\n')}`,
      });
    }
    await waitFor(
      async () => {
        const mirror = await api.get('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/shared');
        return mirror.status?.conditions?.some((each: Json) => each.type === 'Ready' && each.status === 'True');
      },
      { message: 'the SecretMirror to be ready' },
    );
  }
});

describe('a release for some namespaces', () => {
  const user = serviceAccountUser(NAMESPACE, RELEASE);
  let plane: ControlPlane;
  let operator: Keyferry | undefined;

  before(async () => {
    plane = await startControlPlane({ audit: true, controllerManager: false });
    await plane.api.createNamespaces(['team-a', 'team-b', 'other']);
  });
  after(async () => {
    await operator?.kill9();
    await plane?.stop();
  });

  const secretIn = (namespace: string, name: string): string => `/api/v1/namespaces/${namespace}/secrets/${name}`;
  const MIRRORS_PATH = '/apis/mirrors.kts.studio/v1alpha2/namespaces/team-a/secretmirrors';
  const secret = async (namespace: string, name: string, annotations: Json = {}): Promise<Json> =>
    await plane.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace, name, annotations },
      data: { password: 'b25l' },
    });
  const mirror = async (name: string, namespaces: readonly string[]): Promise<Json> =>
    await plane.api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { name, namespace: 'team-a' },
      spec: { source: { name }, destination: { namespaces } },
    });
  const there = async (namespace: string, name: string, value = 'b25l'): Promise<void> => {
    await waitFor(async () => (await plane.api.find(secretIn(namespace, name)))?.data?.password === value, {
      message: () => `${namespace}/${name}\n${operator?.output.split('\n').slice(-10).join('\n')}`,
    });
  };

  it('if the chart is installed for some namespaces, Keyferry copies between them without a ClusterRole and gets no 403', async () => {
    const values = { ...IMAGE, ...BOTH, namespaces: ['team-a', 'team-b'] };
    const args = ['install', RELEASE, CHART, '--create-namespace', `--namespace=${NAMESPACE}`, ...valueFlags(values)];
    const { code, stderr } = await helm(args, plane.kubeconfigPath);
    assert.equal(code, 0, stderr);
    const token = await requestToken(plane.api, NAMESPACE, RELEASE);
    using own = plane.client({ token });
    await waitFor(async () => (await own.raw('GET', '/api/v1/namespaces/team-b/configmaps')).status === 200, {
      message: 'the permissions to be in force',
    });
    assert.ok((await reviewRights(own, 'other')).every((right) => !right.includes('secrets')));
    const path = `/apis/apps/v1/namespaces/${NAMESPACE}/deployments/${RELEASE}`;
    const deployment = await plane.api.get(path);
    const [command = '', ...flags] = argsOf(deployment);
    const rest = flags.filter((arg) => !arg.startsWith('--status-address'));
    operator = await Keyferry.start({
      kubeconfig: await plane.writeKubeconfig({ token }),
      env: settingsOf(deployment),
      command,
      args: [...rest, `--leader-elect-namespace=${NAMESPACE}`],
    });
    await operator.ready();
    for (const name of ['mirrored', 'everywhere']) await secret('team-a', name);
    await mirror('mirrored', ['team-b', 'other']);
    await mirror('everywhere', ['.*']);
    await secret('team-b', 'pushed', { 'k8s-replicator/replicate-to-namespaces': '.*' });
    await secret('team-a', 'open', { 'k8s-replicator/replication-allowed': 'true' });
    await secret('team-b', 'pulls', { 'k8s-replicator/replicate-from': 'team-a/open' });
    await secret('team-a', 'pushed-far', { 'k8s-replicator/replicate-to': 'other/x,team-b/near' });
    await secret('team-b', 'pulls-from-other', { 'k8s-replicator/replicate-from': 'other/open' });
    await there('team-b', 'mirrored');
    await there('team-b', 'everywhere');
    await there('team-a', 'pushed');
    await there('team-b', 'pulls');
    await plane.api.patch(secretIn('team-a', 'mirrored'), { data: { password: 'dHdv' } });
    await plane.api.patch(secretIn('team-a', 'open'), { data: { password: 'dHdv' } });
    await there('team-b', 'mirrored', 'dHdv');
    await there('team-b', 'pulls', 'dHdv');
    await plane.api.delete(`${MIRRORS_PATH}/everywhere`);
    await plane.api.delete(secretIn('team-b', 'pushed'));
    for (const [namespace, name] of [
      ['team-b', 'everywhere'],
      ['team-a', 'pushed'],
    ] as const) {
      await waitFor(async () => (await plane.api.find(secretIn(namespace, name))) === undefined, {
        message: `${namespace}/${name} to be deleted`,
      });
    }
    assert.deepEqual(await plane.api.list('/api/v1/namespaces/other/secrets'), []);
    const refused = readAuditLog(plane, user).filter(({ code: status }) => status === 403);
    assert.deepEqual(refused, []);
  });

  it('if the chart is installed for some namespaces, events report other namespaces as not served', async () => {
    const event = async (namespace: string, name: string): Promise<Json> =>
      await waitFor(
        async () =>
          (await plane.api.list(`/api/v1/namespaces/${namespace}/events`)).find(
            ({ involvedObject }) => involvedObject.name === name,
          ),
        { message: `an event on ${name}` },
      );
    const { message: ofPull } = await event('team-b', 'pulls-from-other');
    assert.match(ofPull, /the namespace other is not one of those that Keyferry serves/);
    const { reason, message: ofPush } = await event('team-a', 'pushed-far');
    assert.equal(reason, 'NotServed');
    assert.equal(ofPush, 'other: not among the namespaces that Keyferry serves (--namespaces)');
    await there('team-b', 'near');
  });
});

async function rolesOf(values: Readonly<Record<string, unknown>>): Promise<Record<string, string[]>> {
  return rolesIn(await template(values));
}

function clusterRights(...files: readonly RoleFile[]): string[] {
  return rightsIn(files, 'ClusterRole');
}

describe('deploy/keyferry.yaml', () => {
  let plane: ControlPlane;
  before(async () => {
    plane = await startControlPlane();
  });
  after(() => plane.stop());

  it('kubectl delete -f deploy/keyferry.yaml leaves the CRD, the SecretMirrors and their copies', async () => {
    const kubectl = async (...args: string[]): Promise<string> =>
      (
        await promisify(execFile)(
          await ensureServer('kubectl'),
          [...args, `--kubeconfig=${plane.kubeconfigPath}`],
          MUCH,
        )
      ).stdout;
    const crd = path.join(CHART, '../../crds/mirrors.kts.studio_secretmirrors.yaml');
    await kubectl('apply', '--server-side', '-f', crd);
    await kubectl('apply', '--server-side', '-f', MANIFEST);
    const finalizers = ['mirrors.kts.studio/finalizer'];
    const mirror = {
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { namespace: 'default', name: 'kept', finalizers },
      spec: { source: { name: 'kept' }, destination: { namespaces: ['team'] } },
    };
    await waitFor(
      async () => {
        await plane.api.create(mirror);
        return true;
      },
      { message: 'the API of SecretMirrors' },
    );
    await kubectl('delete', '--timeout=60s', '-f', MANIFEST);
    const { metadata } = await plane.api.get('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/kept');
    assert.equal(metadata.deletionTimestamp, undefined);
    assert.deepEqual(metadata.finalizers, finalizers);
  });
});
