/** The command lines of the servers in a cluster with real Pods. */
import path from 'node:path';

import { etcdArgs } from '../control-plane-args.ts';

export const NODE = 'node1';
/** The addresses of Services. All clusters have the same, because a cluster does not see the addresses of others. */
export const SERVICES = '10.96.0.0/24';
/** The address of the Service `kubernetes`: it gets the first address in `SERVICES`. */
export const API_SERVICE = '10.96.0.1';
export const DNS_SERVICE = '10.96.0.10';
export const PODS = '10.244.0.0/24';
export const API_PORT = 6443;

/** etcd's port for clients. It can be fixed, because each cluster has its own loopback device. */
const ETCD_PORT = 2379;
const ETCD_PEER_PORT = 2380;

/** Where the files of a cluster are, and its address. */
export interface Layout {
  /** The folder for all files that the cluster writes. */
  readonly folder: string;
  /** The address of the node. */
  readonly address: string;
  readonly cgroup: string;
}

/** The path of a file of the cluster. @param name - the name that `writeClusterFiles` gives the file */
export function clusterFile({ folder }: Pick<Layout, 'folder'>, name: string): string {
  return path.join(folder, 'config', name);
}

export function realEtcdArgs({ folder }: Layout): string[] {
  return etcdArgs({ folder, etcdPort: ETCD_PORT, etcdPeerPort: ETCD_PEER_PORT });
}

export function realApiServerArgs(layout: Layout): string[] {
  const file = (name: string): string => clusterFile(layout, name);
  return [
    `--etcd-servers=http://127.0.0.1:${ETCD_PORT}`,
    '--bind-address=0.0.0.0',
    `--advertise-address=${layout.address}`,
    `--secure-port=${API_PORT}`,
    `--service-cluster-ip-range=${SERVICES}`,
    '--authorization-mode=Node,RBAC',
    '--enable-admission-plugins=NodeRestriction',
    '--allow-privileged',
    `--client-ca-file=${file('ca.crt')}`,
    `--tls-cert-file=${file('api-server.crt')}`,
    `--tls-private-key-file=${file('api-server.key')}`,
    `--token-auth-file=${file('tokens.csv')}`,
    '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
    `--service-account-key-file=${file('service-account.key')}`,
    `--service-account-signing-key-file=${file('service-account.key')}`,
    // The next flags are needed for kubectl logs, exec and port-forward.
    `--kubelet-certificate-authority=${file('ca.crt')}`,
    `--kubelet-client-certificate=${file('api-server-client.crt')}`,
    `--kubelet-client-key=${file('api-server-client.key')}`,
    '--kubelet-preferred-address-types=InternalIP',
  ];
}

export function realControllerManagerArgs(layout: Layout): string[] {
  return [
    `--kubeconfig=${clusterFile(layout, 'admin.yaml')}`,
    `--root-ca-file=${clusterFile(layout, 'ca.crt')}`,
    `--service-account-private-key-file=${clusterFile(layout, 'service-account.key')}`,
    '--leader-elect=false',
    '--secure-port=0',
  ];
}

export function schedulerArgs(layout: Layout): string[] {
  return [`--kubeconfig=${clusterFile(layout, 'admin.yaml')}`, '--leader-elect=false'];
}

export function containerdArgs(layout: Layout): string[] {
  return [`--config=${clusterFile(layout, 'containerd.toml')}`];
}

export function kubeletArgs(layout: Layout): string[] {
  return [
    `--config=${clusterFile(layout, 'kubelet.yaml')}`,
    `--kubeconfig=${clusterFile(layout, 'node.yaml')}`,
    `--root-dir=${path.join(layout.folder, 'kubelet')}`,
    `--hostname-override=${NODE}`,
    `--node-ip=${layout.address}`,
  ];
}
