/**
 * Makes the first start of kube-apiserver cheaper. With an empty etcd, it creates RBAC roles, priority classes and flow
 * schemas; this takes a fifth of the start's CPU time. So the first control plane stores the etcd entries of these
 * objects in a file of the cache. Later control planes write them into their own etcd before their API server starts.
 * The server then creates only what is missing.
 *
 * The file has no namespaces and, of the objects in namespaces, only roles. So each control plane is a cluster of its
 * own for Keyferry, which tells clusters apart by the uid of their namespace `kube-system`.
 */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readFile, realpath, rename, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';

import { cacheFolder, ensureServer } from './ensure.ts';
import type { EnsureOptions } from './ensure.ts';
import { type Entry, EtcdClient } from './etcd-client.ts';

const KINDS = [
  'apiregistration.k8s.io/apiservices',
  'clusterrolebindings',
  'clusterroles',
  'flowschemas',
  'priorityclasses',
  'prioritylevelconfigurations',
  'rolebindings',
  'roles',
];

/**
 * Starts an API server with an empty etcd, after the stored objects were written into it.
 * @param start resolves when the API server is ready
 */
export async function withBootstrapObjects(
  etcdPort: number,
  options: EnsureOptions & { readonly apiServerFlags?: readonly string[] },
  start: () => Promise<void>,
): Promise<void> {
  // Flags may change which objects the API server creates. With flags, objects are neither stored nor written.
  if ((options.apiServerFlags ?? []).length > 0) return start();
  using etcd = new EtcdClient(etcdPort);
  const file = await fileFor(await ensureServer('kube-apiserver', options));
  const isKnown = await writeObjects(etcd, file);
  await start();
  if (!isKnown) await keepObjects(etcd, file);
}

/** The file for the stored objects. Each API server binary has its own, also if a new version has the same path. */
async function fileFor(apiServer: string): Promise<string> {
  const program = await realpath(apiServer);
  const { size, mtimeMs } = await stat(program);
  const hash = createHash('sha256')
    .update(JSON.stringify([program, size, mtimeMs, KINDS]))
    .digest('hex');
  return path.join(cacheFolder(), `bootstrap-${hash.slice(0, 12)}.json`);
}

/** Writes the stored objects into etcd. @returns false if no objects are stored yet */
async function writeObjects(etcd: EtcdClient, file: string): Promise<boolean> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (text === undefined) return false;
  await etcd.put(JSON.parse(text) as readonly Entry[]);
  return true;
}

/**
 * Stores the objects of a new control plane that is ready. Several processes may do this at the same time, because each
 * renames a complete file to the final name.
 */
async function keepObjects(etcd: EtcdClient, file: string): Promise<void> {
  const entries: Entry[] = [];
  for (const kind of KINDS) entries.push(...(await etcd.list(`/registry/${kind}/`)));
  // The cache folder may not exist, if the servers come from another folder.
  await mkdir(path.dirname(file), { recursive: true });
  const draft = `${file}.${randomUUID()}`;
  await writeFile(draft, JSON.stringify(entries));
  await rename(draft, file);
}
