/**
 * The cgroups of a cluster: a folder in each hierarchy. Its name has the id of a process of the cluster, so that the
 * next cluster can remove the folders of one that was killed.
 */
import { accessSync, constants, existsSync, globSync, mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import path from 'node:path';

import { waitFor } from '../../support/wait-for.ts';

const PREFIX = 'keyferry-test-';
const V1_PEAK = 'memory.max_usage_in_bytes';
const V2_PEAK = 'memory.peak';

/** The controllers of cgroup v2 that the kubelet needs. In v1 each has a hierarchy of its own. */
const CONTROLLERS = ['cpu', 'cpuset', 'memory', 'pids'];

/** The reason why the kubelet cannot make cgroups on this machine; `undefined` if it can. */
export function missingCgroups(): string | undefined {
  const folders = hierarchies();
  if (folders.length === 0) return 'no cgroups are mounted';
  for (const folder of folders) {
    try {
      accessSync(folder, constants.W_OK);
    } catch (error) {
      return (error as Error).message;
    }
  }
  const [folder = ''] = folders;
  const enabled = path.join(folder, 'cgroup.subtree_control');
  if (folders.length > 1 || !existsSync(enabled)) return undefined;
  const controllers = readFileSync(enabled, 'utf8').trim().split(' ');
  const missing = CONTROLLERS.filter((controller) => !controllers.includes(controller));
  return missing.length === 0 ? undefined : `${enabled} has not ${missing.join(', ')}`;
}

/** Makes the folders. @returns their name, for `cgroupRoot` of the kubelet */
export function makeCgroups(pid: number): string {
  removeLeftovers();
  const name = `${PREFIX}${pid}`;
  for (const folder of hierarchies()) mkdirSync(path.join(folder, name), { recursive: true });
  return name;
}

/** Waits until the processes in the folders have ended, and removes the folders. */
export async function removeCgroups(name: string): Promise<void> {
  await waitFor(
    () => {
      removeTrees(name);
      return hierarchies().every((folder) => !existsSync(path.join(folder, name)));
    },
    { message: `the cgroups ${name} to be empty` },
  );
}

/** The most memory that a container has used so far, bytes. @throws Error if it has no cgroup */
export function peakMemory(name: string, containerId: string): number {
  const files = hierarchies().flatMap((folder) =>
    globSync(`${folder}/${name}/**/*${containerId}*/{${V1_PEAK},${V2_PEAK}}`),
  );
  const [file] = files;
  if (file === undefined) throw new Error(`the container ${containerId} has no file ${V1_PEAK} or ${V2_PEAK}`);
  return Number(readFileSync(file, 'utf8'));
}

/** The mount points of cgroup v1 and v2. */
function hierarchies(): string[] {
  return readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .filter((line) => / - cgroup2? /.test(line))
    .map((line) => line.split(' ')[4] ?? '');
}

function removeLeftovers(): void {
  const names = hierarchies().flatMap((folder) => globSync(`${PREFIX}*`, { cwd: folder }));
  for (const name of new Set(names)) {
    if (!existsSync(`/proc/${name.slice(PREFIX.length)}`)) removeTrees(name);
  }
}

function removeTrees(name: string): void {
  for (const folder of hierarchies()) {
    const inside = globSync(`${folder}/${name}/**/`).map((entry) => entry.replace(/\/$/, ''));
    for (const entry of inside.toSorted((a, b) => b.length - a.length)) {
      try {
        rmdirSync(entry);
      } catch (error) {
        // EBUSY: a process in it has not ended yet.
        if (!['EBUSY', 'ENOENT', 'ENOTEMPTY'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
      }
    }
  }
}
