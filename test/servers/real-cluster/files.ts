/**
 * Writes the files that the servers of a cluster read: certificates, kubeconfigs, and the settings of kubelet,
 * containerd and CNI.
 */
import { generateKeyPairSync } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { stringify } from 'yaml';

import type { Certificate, CertificateAuthority } from '../certificates.ts';
import { kubeconfigYaml } from '../kubeconfig.ts';
import { pluginFolder } from './missing.ts';
import { PAUSE_IMAGE } from './program-image.ts';
import { API_PORT, API_SERVICE, clusterFile, DNS_SERVICE, type Layout, NODE, PODS } from './server-args.ts';

export const CONTAINERD_SOCKET = '/run/containerd/containerd.sock';

/** Writes all these files into the cluster's folder `config`. */
export async function writeClusterFiles(layout: Layout, ca: CertificateAuthority, adminToken: string): Promise<void> {
  await mkdir(clusterFile(layout, 'cni'), { recursive: true });
  const write = (name: string, text: string): Promise<void> =>
    writeFile(clusterFile(layout, name), text, { mode: 0o600 });
  const writePair = async (name: string, pair: Promise<Certificate>): Promise<void> => {
    const { certPem, keyPem } = await pair;
    await Promise.all([write(`${name}.crt`, certPem), write(`${name}.key`, keyPem)]);
  };
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const server = apiUrl(layout);
  const node = await ca.client({ commonName: `system:node:${NODE}`, organizations: ['system:nodes'] });
  await Promise.all([
    write('ca.crt', ca.certPem),
    write('service-account.key', privateKey.export({ type: 'sec1', format: 'pem' }).toString()),
    write('tokens.csv', `${adminToken},admin,admin,system:masters\n`),
    writePair('api-server', ca.server('kube-apiserver', [layout.address, API_SERVICE])),
    writePair('api-server-client', ca.client({ commonName: 'api-server', organizations: ['system:masters'] })),
    writePair('kubelet', ca.server(NODE, [layout.address])),
    write('admin.yaml', kubeconfigYaml({ server, caPem: ca.certPem, token: adminToken })),
    write(
      'node.yaml',
      kubeconfigYaml({ server, caPem: ca.certPem, clientCertPem: node.certPem, clientKeyPem: node.keyPem }),
    ),
    write('kubelet.yaml', stringify(kubeletConfiguration(layout))),
    write('containerd.toml', containerdToml(layout)),
    write('cni/pods.conflist', JSON.stringify(podNetwork(layout))),
  ]);
}

export function apiUrl({ address }: Pick<Layout, 'address'>): string {
  return `https://${address}:${API_PORT}`;
}

function kubeletConfiguration(layout: Layout): object {
  const file = (name: string): string => clusterFile(layout, name);
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    containerRuntimeEndpoint: `unix://${CONTAINERD_SOCKET}`,
    tlsCertFile: file('kubelet.crt'),
    tlsPrivateKeyFile: file('kubelet.key'),
    authentication: {
      anonymous: { enabled: false },
      x509: { clientCAFile: file('ca.crt') },
      webhook: { enabled: true },
    },
    authorization: { mode: 'Webhook' },
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${layout.cgroup}`,
    failCgroupV1: false,
    failSwapOn: false,
    podLogsDir: path.join(layout.folder, 'pod-logs'),
    volumePluginDir: path.join(layout.folder, 'volume-plugins'),
    clusterDNS: [DNS_SERVICE],
    clusterDomain: 'cluster.local',
    resolvConf: '',
    // A lower value needs CAP_SYS_RESOURCE. In a container, root may lack this capability.
    oomScoreAdj: 0,
    maxOpenFiles: 20_000,
    // If the disk of this machine is full, the kubelet must not remove images or Pods.
    imageGCHighThresholdPercent: 100,
    evictionHard: { 'imagefs.available': '0%', 'nodefs.available': '0%', 'nodefs.inodesFree': '0%' },
  };
}

function containerdToml(layout: Layout): string {
  return `version = 2
root = ${JSON.stringify(path.join(layout.folder, 'containerd'))}
state = "/run/containerd"
[grpc]
  address = ${JSON.stringify(CONTAINERD_SOCKET)}
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = ${JSON.stringify(PAUSE_IMAGE)}
  # Root may lack CAP_SYS_RESOURCE.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = ${JSON.stringify(pluginFolder())}
  conf_dir = ${JSON.stringify(clusterFile(layout, 'cni'))}
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
`;
}

function podNetwork(layout: Layout): object {
  const ipam = {
    type: 'host-local',
    dataDir: path.join(layout.folder, 'addresses'),
    ranges: [[{ subnet: PODS }]],
    routes: [{ dst: '0.0.0.0/0' }],
  };
  return {
    cniVersion: '1.0.0',
    name: 'pods',
    plugins: [
      { type: 'bridge', bridge: 'pods', isGateway: true, ipMasq: true, hairpinMode: true, ipam },
      { type: 'portmap', capabilities: { portMappings: true } },
    ],
  };
}
