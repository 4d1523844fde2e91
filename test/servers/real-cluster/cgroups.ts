/**
 * Makes and removes the cgroups of a cluster: a folder in each cgroup hierarchy. The folder's name contains the id of
 * the cluster's first process. If a cluster was killed, the next cluster recognizes its folders by this id and removes
 * them.
 */
import { accessSync, constants, existsSync, globSync, mkdirSync, readFileSync, rmdirSync } from 'node:fs';
import path from 'node:path';

import { waitFor } from '../../support/wait-for.ts';

const PREFIX = 'keyferry-test-';
const V1_PEAK = 'memory.max_usage_in_bytes';
const V2_PEAK = 'memory.peak';

/** The cgroup controllers that the kubelet needs. In cgroup v1, each controller has its own hierarchy. */
const CONTROLLERS = ['cpu', 'cpuset', 'memory', 'pids'];

/** Why the kubelet cannot make cgroups on this machine; `undefined`: it can. */
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

/** Makes the folders of a cluster. @returns their name, for the kubelet's field `cgroupRoot` */
export function makeCgroups(pid: number): string {
  removeLeftovers();
  const name = `${PREFIX}${pid}`;
  for (const folder of hierarchies()) mkdirSync(path.join(folder, name), { recursive: true });
  return name;
}

/** Waits until all processes in the folders have ended, then removes the folders. */
export async function removeCgroups(name: string): Promise<void> {
  await waitFor(
    () => {
      removeTrees(name);
      return hierarchies().every((folder) => !existsSync(path.join(folder, name)));
    },
    { message: `the cgroups ${name} to be empty` },
  );
}

/** The largest memory that a container has used until now, bytes. @throws Error if the container has no cgroup */
export function peakMemory(name: string, containerId: string): number {
  const files = hierarchies().flatMap((folder) =>
    globSync(`${folder}/${name}/**/*${containerId}*/{${V1_PEAK},${V2_PEAK}}`),
  );
  const [file] = files;
  if (file === undefined) throw new Error(`the container ${containerId} has no file ${V1_PEAK} or ${V2_PEAK}`);
  return Number(readFileSync(file, 'utf8'));
}

/** The mount points of the hierarchies of cgroup v1 and v2. */
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
        // EBUSY: a process in the folder has not ended yet.
        if (!['EBUSY', 'ENOENT', 'ENOTEMPTY'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
      }
    }
  }
}
