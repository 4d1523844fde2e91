/**
 * Links this machine and the network namespace of a cluster: a pair of network devices, with their own network.
 *
 * The device on this machine has the id of the cluster's first process as its alias. If a test is killed, the device
 * stays for minutes, because connections of dead processes keep a network namespace alive. So `removeLink` deletes the
 * device, or the next cluster does.
 */
import { execFile } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

import { withLock } from '../build-lock.ts';
import { cacheFolder } from '../ensure.ts';
import { PROGRAM_PATH } from './missing.ts';

export interface Link {
  /** The name of the device on this machine. */
  readonly device: string;
  /** This machine's address in the network of the link. */
  readonly outside: string;
  /** The cluster's address in the network of the link (device `eth0`). */
  readonly inside: string;
}

/** Length of the network prefix: a network has four addresses. */
export const PREFIX_LENGTH = 30;

const DEVICE = 'keyferry';
const DEVICES = '/sys/class/net';
/** The number of networks. They are in the address range for network tests (RFC 2544). */
const NETWORKS = 64;
const TIMEOUT_MS = 30_000;

/** Links this machine with the network namespace of a process. Uses the first network that is not in use. */
export async function addLink(pid: number): Promise<Link> {
  await mkdir(cacheFolder(), { recursive: true });
  return withLock(
    path.join(cacheFolder(), 'network.lock'),
    async () => {
      await removeLeftovers();
      const number = Array.from({ length: NETWORKS }, (_, index) => index).find(
        (index) => !exists(`${DEVICE}${index}`),
      );
      if (number === undefined) throw new Error(`all ${NETWORKS} networks for clusters are in use`);
      const device = `${DEVICE}${number}`;
      const [outside, inside] = [`198.18.0.${4 * number + 1}`, `198.18.0.${4 * number + 2}`];
      await ip('link', 'add', device, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(pid));
      await ip('link', 'set', device, 'alias', String(pid));
      await ip('address', 'add', `${outside}/${PREFIX_LENGTH}`, 'dev', device);
      await ip('link', 'set', device, 'up');
      return { device, outside, inside };
    },
    () => undefined,
  );
}

/**
 * Links the network namespaces of two processes: each gets a device called `name`, and both devices are in one network.
 * Other namespaces cannot use this network.
 */
export async function joinNamespaces(name: string, pids: readonly [number, number]): Promise<void> {
  const [one, other] = pids.map(String) as [string, string];
  await ip('link', 'add', 'name', name, 'netns', one, 'type', 'veth', 'peer', 'name', name, 'netns', other);
}

/** Deletes both devices of the link. */
export async function removeLink({ device }: Link): Promise<void> {
  await remove(device);
}

/** Deletes the devices of clusters whose first process has ended. */
async function removeLeftovers(): Promise<void> {
  for (const device of globSync(`${DEVICE}*`, { cwd: DEVICES })) {
    const pid = readFileSync(path.join(DEVICES, device, 'ifalias'), 'utf8').trim();
    if (pid === '' || !existsSync(`/proc/${pid}`)) await remove(device);
  }
}

/** Deletes a device. (It may not exist any more: the kernel deletes it together with the other namespace.) */
async function remove(device: string): Promise<void> {
  try {
    await ip('link', 'delete', device);
  } catch (error) {
    if (exists(device)) throw error;
  }
}

function exists(device: string): boolean {
  return existsSync(path.join(DEVICES, device));
}

async function ip(...args: readonly string[]): Promise<void> {
  await promisify(execFile)('ip', args, { env: { ...process.env, PATH: PROGRAM_PATH }, timeout: TIMEOUT_MS });
}
