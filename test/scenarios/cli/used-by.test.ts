/** `keyferry explain` names what uses a Secret or ConfigMap, on a real API server that checks each object. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { explainSchema } from '../../../scripts/reports/schemas.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { waitForRights } from '../../support/permissions.ts';
import { namespace, secret } from './objects.ts';
import { runProgram } from './program.ts';

const READER = 'reader';
const NAMESPACE = 'shop';
const IMAGE = 'registry.example/app';
const RBAC = 'rbac.authorization.k8s.io';
const KINDS = ['Deployment', 'StatefulSet', 'DaemonSet', 'CronJob', 'Job', 'Pod', 'ServiceAccount', 'Ingress'];

const container = (more: object = {}) => ({ name: 'app', image: IMAGE, ...more });
const pod = (more: object = {}) => ({ restartPolicy: 'Never', containers: [container()], ...more });
const volume = (source: object) => pod({ volumes: [{ name: 'v', ...source }] });
const env = (valueFrom: object) => pod({ containers: [container({ env: [{ name: 'A', valueFrom }] })] });
const meta = (name: string, more: object = {}) => ({ name, namespace: NAMESPACE, ...more });
const madeBy = (kind: string, name: string) => ({
  ownerReferences: [{ apiVersion: 'x/v1', kind, name, uid: 'u', controller: true }],
});
const one = (apiVersion: string, kind: string, metadata: object, more: object) => ({
  apiVersion,
  kind,
  metadata,
  ...more,
});
const workload = (kind: string, name: string, template: object, more: object = {}) => {
  const labels = { app: name };
  const body = { metadata: { labels }, spec: { ...template, restartPolicy: 'Always' } };
  return one('apps/v1', kind, meta(name), { spec: { selector: { matchLabels: labels }, template: body, ...more } });
};
const aPod = (name: string, spec: object, more: object = {}) => one('v1', 'Pod', meta(name, more), { spec });
const job = (name: string, spec: object, more: object = {}) =>
  one('batch/v1', 'Job', meta(name, more), { spec: { template: { spec } } });

/** All of these name the Secret `db` or the ConfigMap `db`, in every form of the API. */
const OBJECTS = [
  workload('Deployment', 'web', env({ secretKeyRef: { name: 'db', key: 'password' } })),
  aPod('web-abc-1', env({ secretKeyRef: { name: 'db', key: 'password' } }), {
    labels: { 'pod-template-hash': 'abc' },
    ...madeBy('ReplicaSet', 'web-abc'),
  }),
  workload('StatefulSet', 'cache', volume({ secret: { secretName: 'db' } }), { serviceName: 'cache' }),
  workload('DaemonSet', 'agent', volume({ projected: { sources: [{ secret: { name: 'db' } }] } })),
  one('batch/v1', 'CronJob', meta('nightly'), {
    spec: {
      schedule: '@daily',
      jobTemplate: { spec: { template: { spec: volume({ secret: { secretName: 'db' } }) } } },
    },
  }),
  job('nightly-1', volume({ secret: { secretName: 'db' } }), madeBy('CronJob', 'nightly')),
  aPod('nightly-1-x', volume({ secret: { secretName: 'db' } }), madeBy('Job', 'nightly-1')),
  job(
    'once',
    pod({ initContainers: [container({ name: 'i', envFrom: [{ secretRef: { name: 'db', optional: true } }] })] }),
  ),
  aPod('alone', pod({ imagePullSecrets: [{ name: 'db' }] })),
  aPod('rolled-x-1', env({ secretKeyRef: { name: 'db', key: 'a' } }), madeBy('ReplicaSet', 'rolled-x')),
  aPod('csi', volume({ csi: { driver: 'd', nodePublishSecretRef: { name: 'db' } } })),
  one('v1', 'ServiceAccount', meta('robot'), { secrets: [{ name: 'db' }], imagePullSecrets: [{ name: 'db' }] }),
  one('networking.k8s.io/v1', 'Ingress', meta('front'), {
    spec: { defaultBackend: { service: { name: 's', port: { number: 80 } } }, tls: [{ secretName: 'db' }] },
  }),
  workload('Deployment', 'settings', volume({ configMap: { name: 'db' } })),
  aPod('settings-alone', env({ configMapKeyRef: { name: 'db', key: 'a' } })),
  aPod('settings-all', pod({ containers: [container({ envFrom: [{ configMapRef: { name: 'db' } }] })] })),
  // These name neither, although the name is in them.
  aPod('db', pod({ volumes: [{ name: 'db', secret: { secretName: 'other' } }], serviceAccountName: 'default' })),
  one('v1', 'ServiceAccount', meta('db'), {}),
];

describe('keyferry explain names what uses the object', () => {
  let plane: ControlPlane;
  let reader: string;

  const explain = async (kind: string, place: string, kubeconfig = plane.kubeconfigPath) => {
    const args = ['explain', kind, place, '--kubeconfig', kubeconfig];
    const { stdout } = await runProgram([...args, '-o', 'json']);
    const { usedBy, usersUnread } = explainSchema.parse(JSON.parse(stdout));
    const { stdout: text } = await runProgram(args);
    const users = usedBy.map(({ kind: user, name, as }) => `${user} ${name}: ${as.join(' + ')}`);
    return { users, usersUnread, text };
  };

  before(async () => {
    plane = await startControlPlane({ controllerManager: false, users: [{ name: READER }] });
    const { api } = plane;
    await api.createMany([namespace(NAMESPACE), namespace('empty')]);
    await api.create(one('v1', 'ServiceAccount', meta('default'), {}));
    await api.createMany([secret(NAMESPACE, 'db', 'x'), secret('empty', 'db', 'x')]);
    for (const object of OBJECTS) await api.create(object);
    const over = { status: { phase: 'Succeeded' } };
    await api.create(aPod('over', volume({ secret: { secretName: 'db' } })));
    await api.patch(`/api/v1/namespaces/${NAMESPACE}/pods/over/status`, over);
    await api.create(
      one(
        `${RBAC}/v1`,
        'ClusterRole',
        { name: 'look' },
        {
          rules: [
            { apiGroups: [''], resources: ['secrets', 'configmaps', 'namespaces', 'pods'], verbs: ['list'] },
            { apiGroups: ['mirrors.kts.studio'], resources: ['secretmirrors'], verbs: ['list'] },
            { apiGroups: ['apps'], resources: ['deployments'], verbs: ['list'] },
          ],
        },
      ),
    );
    await api.create(
      one(
        `${RBAC}/v1`,
        'ClusterRoleBinding',
        { name: 'look' },
        {
          roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: 'look' },
          subjects: [{ apiGroup: RBAC, kind: 'User', name: READER }],
        },
      ),
    );
    await waitForRights(api, { user: READER, groups: [] }, NAMESPACE, ['apps/deployments: list']);
    reader = await plane.writeKubeconfig({ token: plane.tokenFor(READER) });
  });
  after(() => plane.stop());

  it('explain of a Secret names each workload once, with what the Secret is for, and no Pod that has ended', async () => {
    const { users, usersUnread, text } = await explain('secret', `${NAMESPACE}/db`);
    assert.deepEqual(users, [
      'ReplicaSet rolled-x: env',
      'Deployment web: env',
      'StatefulSet cache: volumes',
      'DaemonSet agent: volumes',
      'CronJob nightly: volumes',
      'Job once: envFrom, optional',
      'Pod alone: imagePullSecrets',
      'Pod csi: volumes',
      'ServiceAccount robot: imagePullSecrets + secrets',
      'Ingress front: tls',
    ]);
    assert.deepEqual(usersUnread, []);
    assert.match(text, /^USED BY +AS$/m);
    assert.match(text, /^Deployment web +env$/m);
    assert.doesNotMatch(text, /not known/);
  });

  it('explain of a ConfigMap that does not exist names the workloads that wait for it', async () => {
    const { users } = await explain('configmap', `${NAMESPACE}/db`);
    assert.deepEqual(users, ['Deployment settings: volumes', 'Pod settings-all: envFrom', 'Pod settings-alone: env']);
  });

  it('if nothing names the object, explain says so', async () => {
    const { users, text } = await explain('secret', 'empty/db');
    assert.deepEqual(users, []);
    assert.match(text, /^Used by +no Pod, workload, ServiceAccount or Ingress of its namespace$/m);
  });

  it('what the caller may not list, explain names as not known, and it does not say that nothing uses the object', async () => {
    const unread = KINDS.filter((kind) => kind !== 'Pod' && kind !== 'Deployment');
    const some = await explain('secret', `${NAMESPACE}/db`, reader);
    assert.deepEqual(some.usersUnread, unread);
    // Without the right to list Jobs, the Job that made a Pod stands for it.
    assert.ok(some.users.includes('Deployment web: env') && some.users.includes('Job nightly-1: volumes'));
    const { text } = await explain('secret', 'empty/db', reader);
    assert.doesNotMatch(text, /^Used by/m);
    assert.ok(text.includes(`whether they use it is not known: ${unread.join(', ')}\n`), text);
  });
});
