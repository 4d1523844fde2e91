/** Finds out whether this machine can run real Pods, and what it lacks. */
import { spawnSync } from 'node:child_process';
import { accessSync, constants, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { missingCgroups } from './cgroups.ts';

/** A PATH that contains the programs of root, too. */
export const PROGRAM_PATH = `${process.env['PATH'] ?? ''}:/usr/sbin:/sbin`;

const PROGRAMS = [
  'bash',
  'containerd',
  'containerd-shim-runc-v2',
  'ctr',
  'ip',
  'iptables',
  'mount',
  'nsenter',
  'runc',
  'tar',
  'unshare',
];
/** Where Debian and the upstream releases install CNI plugins. */
const PLUGIN_FOLDERS = ['/usr/lib/cni', '/opt/cni/bin'];
const PLUGINS = ['bridge', 'host-local', 'loopback', 'portmap'];
const TRIAL_TIMEOUT_MS = 30_000;

/** A script that tries the steps of a cluster that need special permissions. Its argument is a folder. */
const TRIAL = `
set -eu
mount --make-rprivate /
mount -t proc proc /proc
mkdir "$1/upper" "$1/work"
mount -t overlay overlay -o "lowerdir=/var/lib,upperdir=$1/upper,workdir=$1/work" /var/lib
iptables -t nat -S >/dev/null
ip link add bridge-trial type bridge
ip link add veth-trial type veth
`;

/** The result of the first call in this process. */
const known: { answer?: string | false } = {};

/** Why this machine cannot run a cluster, for `skip` of a test; `false` if it can. */
export function missingForPods(): string | false {
  known.answer ??= findMissing() ?? false;
  return known.answer;
}

/** The folder with the CNI plugins. @throws Error if they are not installed (see `missingForPods`) */
export function pluginFolder(): string {
  const folder = PLUGIN_FOLDERS.find((folder) => PLUGINS.every((plugin) => existsSync(path.join(folder, plugin))));
  if (folder === undefined) throw new Error(`no CNI plugins in ${PLUGIN_FOLDERS.join(' or ')}`);
  return folder;
}

function findMissing(): string | undefined {
  if (process.platform !== 'linux') return 'Pods need Linux';
  if (process.getuid?.() !== 0) return 'Pods need root';
  const chosen = process.env['KEYFERRY_TEST_KUBERNETES'] ?? '';
  if (chosen !== '') return `the kubelet is not built for Kubernetes ${chosen}`;
  const programs = PROGRAMS.filter((program) => !isInstalled(program));
  const hasPlugins = PLUGIN_FOLDERS.some((folder) => PLUGINS.every((name) => existsSync(path.join(folder, name))));
  const missing = hasPlugins ? programs : [...programs, `CNI plugins (${PLUGINS.join(', ')})`];
  if (missing.length > 0) {
    const packages = 'containerd runc containernetworking-plugins iptables iproute2';
    return `Pods need programs that are not installed: ${missing.join(', ')} (Debian: apt-get install ${packages})`;
  }
  const cgroups = missingCgroups();
  return cgroups === undefined ? refusal() : `Pods need cgroups: ${cgroups}`;
}

/** Whether root would find this program. */
export function isInstalled(program: string): boolean {
  return PROGRAM_PATH.split(path.delimiter).some((folder) => {
    try {
      accessSync(path.join(folder, program), constants.X_OK);
      return true;
    } catch (error) {
      // Not in this folder: the search continues in the next one.
      void error;
      return false;
    }
  });
}

/** Why the kernel, or a container around this process, does not allow a cluster; `undefined`: it does. */
function refusal(): string | undefined {
  const folder = mkdtempSync(path.join(tmpdir(), 'keyferry-namespace-trial-'));
  try {
    const args = ['--net', '--mount', '--pid', '--fork', '--kill-child', 'bash', '-c', TRIAL, 'trial', folder];
    const { status, stderr, error } = spawnSync('unshare', args, {
      env: { ...process.env, PATH: PROGRAM_PATH },
      encoding: 'utf8',
      timeout: TRIAL_TIMEOUT_MS,
    });
    if (status === 0) return undefined;
    return `Pods need namespaces, overlay mounts and iptables, which this machine refuses: ${error?.message ?? stderr.trim()}`;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
