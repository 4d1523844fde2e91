/**
 * The Linux namespaces (network, mounts, processes) in which all servers and Pods of a cluster run, and their link to
 * this machine.
 *
 * States: open → closed. When the first process (`namespace.sh`) ends, the kernel ends all other processes in them, and
 * removes their mounts, network devices and iptables rules. This works even if the test is killed (see `Reaper`). Only
 * empty cgroups and the link are left then; the next cluster removes them.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

import { ServerProcess } from '../server-process.ts';
import { makeCgroups, removeCgroups } from './cgroups.ts';
import { addLink, joinNamespaces, type Link, PREFIX_LENGTH, removeLink } from './link.ts';
import { PROGRAM_PATH } from './missing.ts';

const SCRIPT = path.join(import.meta.dirname, 'namespace.sh');
const READY_TIMEOUT_MS = 60_000;
const RUN_TIMEOUT_MS = 120_000;
/** The device that joins two clusters, and its address in each. */
const JOINT = 'joint';
const JOINT_NETWORK = ['198.19.0.1', '198.19.0.2'] as const;
/** Environment of the servers. They connect to each other without an HTTP proxy. */
const ENV = { PATH: PROGRAM_PATH, NO_PROXY: '*', no_proxy: '*' };

export class Namespace {
  readonly link: Link;
  /** The value for the kubelet's field `cgroupRoot`. */
  readonly cgroup: string;
  readonly #first: ServerProcess;

  private constructor(first: ServerProcess, link: Link, cgroup: string) {
    this.#first = first;
    this.link = link;
    this.cgroup = cgroup;
  }

  /** Opens the namespaces. @param folder the cluster's folder. Programs in the namespaces may write into it */
  static async open(folder: string): Promise<Namespace> {
    const first = new ServerProcess({
      name: 'namespace',
      command: 'unshare',
      args: ['--net', '--mount', '--pid', '--fork', '--kill-child', 'bash', SCRIPT, folder],
      env: ENV,
      logFile: path.join(folder, 'namespace.log'),
    });
    try {
      await first.ready(() => Promise.resolve(existsSync(path.join(folder, 'prepared'))), READY_TIMEOUT_MS);
      const pid = first.pid ?? 0;
      const namespace = new Namespace(first, await addLink(pid), makeCgroups(pid));
      await namespace.#configure();
      return namespace;
    } catch (error) {
      await first.kill();
      throw error;
    }
  }

  get pid(): number {
    return this.#first.pid ?? 0;
  }

  /** Starts a server in the namespaces. It ends when the namespaces are closed. */
  spawn(name: string, command: string, args: readonly string[], folder: string): ServerProcess {
    const logFile = path.join(folder, `${name}.log`);
    return new ServerProcess({ name, command: 'nsenter', args: this.#enter(command, args), env: ENV, logFile });
  }

  /** Runs a program in the namespaces until it ends. @throws Error with its output, if it fails @returns its stdout */
  async run(command: string, ...args: readonly string[]): Promise<string> {
    const options = { env: { ...process.env, ...ENV }, timeout: RUN_TIMEOUT_MS, maxBuffer: 32 * 1024 * 1024 };
    const { stdout } = await promisify(execFile)('nsenter', this.#enter(command, args), options);
    return stdout;
  }

  /** Links this cluster with another one. Its Pods can then connect to the servers of the other cluster. */
  async reach(other: Namespace): Promise<void> {
    await joinNamespaces(JOINT, [this.pid, other.pid]);
    for (const [namespace, address] of [
      [this, JOINT_NETWORK[0]],
      [other, JOINT_NETWORK[1]],
    ] as const) {
      await namespace.run('ip', 'address', 'add', `${address}/${PREFIX_LENGTH}`, 'dev', JOINT);
      await namespace.run('ip', 'link', 'set', JOINT, 'up');
    }
    await this.run('ip', 'route', 'add', other.link.inside, 'via', JOINT_NETWORK[1]);
  }

  /** Ends all processes in the namespaces, and waits until all have ended. */
  async close(): Promise<void> {
    await this.#first.kill();
    await removeLink(this.link);
    await removeCgroups(this.cgroup);
  }

  /**
   * The command that runs a program in the namespaces. `unshare` itself is in the new network and mount namespaces, but
   * only its child is in the new process namespace.
   */
  #enter(command: string, args: readonly string[]): string[] {
    const file = (type: string): string => `/proc/${this.pid}/ns/${type}`;
    const into = [`--net=${file('net')}`, `--mount=${file('mnt')}`, `--pid=${file('pid_for_children')}`];
    return [...into, command, ...args];
  }

  async #configure(): Promise<void> {
    const { inside, outside } = this.link;
    const ip = (...args: readonly string[]): Promise<string> => this.run('ip', ...args);
    await ip('link', 'set', 'lo', 'up');
    await ip('address', 'add', `${inside}/${PREFIX_LENGTH}`, 'dev', 'eth0');
    await ip('link', 'set', 'eth0', 'up');
    // The kubelet does not start without a default route.
    await ip('route', 'add', 'default', 'via', outside);
    // This setting applies to the network namespace only.
    await this.run('sh', '-c', 'echo 1 > /proc/sys/net/ipv4/ip_forward');
  }
}
