/** The command lines of the servers in a control plane. */
import path from 'node:path';

import { SHORT_VARIABLE } from '../support/long.ts';

/** Where a control plane is: its folder, and the ports of its servers. */
export interface Layout {
  readonly folder: string;
  readonly etcdPort: number;
  readonly etcdPeerPort: number;
  readonly apiPort: number;
  readonly tokensFile: string;
  readonly auditPolicyFile: string;
  readonly auditLog: string;
  readonly pki: string;
}

const CONTROLLERS = [
  'namespace-controller',
  'garbage-collector-controller',
  'serviceaccount-controller',
  'serviceaccount-token-controller',
];

export function etcdArgs(layout: Pick<Layout, 'folder' | 'etcdPort' | 'etcdPeerPort'>): string[] {
  const client = `http://127.0.0.1:${layout.etcdPort}`;
  const peer = `http://127.0.0.1:${layout.etcdPeerPort}`;
  return [
    `--data-dir=${path.join(layout.folder, 'etcd')}`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
    // The data need not survive a power cut. With an fsync for each write, tests would mostly measure the disk.
    '--unsafe-no-fsync',
    // The clock of an idle etcd ticks this often (ms); it has no other members. The default is 100.
    '--heartbeat-interval=500',
    '--election-timeout=5000',
    '--log-level=warn',
    '--quota-backend-bytes=8589934592',
  ];
}

/** Resources that no test watches, by API group. */
const NOT_WATCHED: Readonly<Record<string, string>> = {
  '': 'endpoints limitranges persistentvolumeclaims persistentvolumes podtemplates replicationcontrollers',
  apps: 'controllerrevisions daemonsets deployments replicasets statefulsets',
  autoscaling: 'horizontalpodautoscalers',
  batch: 'cronjobs jobs',
  'certificates.k8s.io': 'certificatesigningrequests',
  'discovery.k8s.io': 'endpointslices',
  'networking.k8s.io': 'ingressclasses ingresses ipaddresses networkpolicies servicecidrs',
  'node.k8s.io': 'runtimeclasses',
  policy: 'poddisruptionbudgets',
  'resource.k8s.io': 'deviceclasses resourceclaims resourceclaimtemplates resourceslices',
  'scheduling.k8s.io': 'priorityclasses',
  'storage.k8s.io': 'csidrivers csinodes csistoragecapacities storageclasses volumeattachments volumeattributesclasses',
};

/**
 * Flags for a run of all files, in which several API servers share the processors. Each cache of a watch costs CPU time
 * also while nothing happens. The servers of `npm run test:matrix`, and of a run that names files, have no such flags.
 */
function savingArgs(): string[] {
  if (process.env[SHORT_VARIABLE] !== '1') return [];
  const uncached = Object.entries(NOT_WATCHED).flatMap(([group, resources]) =>
    resources.split(' ').map((resource) => `${group === '' ? resource : `${resource}.${group}`}#0`),
  );
  return ['--enable-priority-and-fairness=false', `--watch-cache-sizes=${uncached.join(',')}`];
}

export function apiServerArgs(layout: Layout, audit: boolean): string[] {
  const pki = (name: string): string => path.join(layout.pki, name);
  return [
    `--etcd-servers=http://127.0.0.1:${layout.etcdPort}`,
    '--bind-address=127.0.0.1',
    '--advertise-address=127.0.0.1',
    `--secure-port=${layout.apiPort}`,
    `--tls-cert-file=${pki('server.crt')}`,
    `--tls-private-key-file=${pki('server.key')}`,
    `--client-ca-file=${pki('ca.crt')}`,
    `--token-auth-file=${layout.tokensFile}`,
    '--authorization-mode=RBAC',
    '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
    `--service-account-key-file=${pki('service-account.key')}`,
    `--service-account-signing-key-file=${pki('service-account.key')}`,
    '--service-cluster-ip-range=10.0.0.0/24',
    // Without this flag, the Service `kubernetes` needs an address that is not loopback. No test uses the Service.
    '--endpoint-reconciler-type=none',
    '--shutdown-delay-duration=0s',
    // Without this flag, the server waits up to a minute for an open watch after SIGTERM.
    '--shutdown-watch-termination-grace-period=1s',
    ...savingArgs(),
    ...(audit
      ? [
          `--audit-policy-file=${layout.auditPolicyFile}`,
          `--audit-log-path=${layout.auditLog}`,
          '--audit-log-mode=blocking-strict',
        ]
      : []),
  ];
}

export function controllerManagerArgs(layout: Layout, kubeconfigPath: string): string[] {
  return [
    `--kubeconfig=${kubeconfigPath}`,
    `--controllers=${CONTROLLERS.join(',')}`,
    `--service-account-private-key-file=${path.join(layout.pki, 'service-account.key')}`,
    `--root-ca-file=${path.join(layout.pki, 'ca.crt')}`,
    '--use-service-account-credentials=false',
    '--leader-elect=false',
    // The port would serve only metrics and health.
    '--secure-port=0',
    '--kube-api-qps=500',
    '--kube-api-burst=1000',
  ];
}
