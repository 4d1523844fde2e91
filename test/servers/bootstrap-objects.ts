/**
 * Saves the work that kube-apiserver has at its first start with an empty etcd, where it creates RBAC roles, priority
 * classes and flow schemas: that is a fifth of its CPU time. The first control plane stores these keys of etcd in a
 * file of the cache. The later control planes write them into their etcd before their API server starts, which then
 * creates only what is missing.
 *
 * Namespaces and the objects in them, other than roles, are not among these keys. Each control plane must be a cluster
 * of its own: Keyferry tells clusters apart by the uid of their namespace `kube-system`.
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
 * Starts an API server on an empty etcd, with the stored objects.
 * @param start resolves when the API server is ready
 */
export async function withBootstrapObjects(
  etcdPort: number,
  options: EnsureOptions & { readonly apiServerFlags?: readonly string[] },
  start: () => Promise<void>,
): Promise<void> {
  // Flags may change what the API server creates, so then nothing is stored or read.
  if ((options.apiServerFlags ?? []).length > 0) return start();
  using etcd = new EtcdClient(etcdPort);
  const file = await fileFor(await ensureServer('kube-apiserver', options));
  const isKnown = await writeObjects(etcd, file);
  await start();
  if (!isKnown) await keepObjects(etcd, file);
}

/** The file of the stored objects. Each version of the API server has its own, also if it is at the same path. */
async function fileFor(apiServer: string): Promise<string> {
  const program = await realpath(apiServer);
  const { size, mtimeMs } = await stat(program);
  const hash = createHash('sha256')
    .update(JSON.stringify([program, size, mtimeMs, KINDS]))
    .digest('hex');
  return path.join(cacheFolder(), `bootstrap-${hash.slice(0, 12)}.json`);
}

/** Writes the stored objects into etcd. @returns false if there are none yet */
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
 * Stores the objects of a control plane that is ready and unused. Two may do it at once, because the file is renamed
 * into place.
 */
async function keepObjects(etcd: EtcdClient, file: string): Promise<void> {
  const entries: Entry[] = [];
  for (const kind of KINDS) entries.push(...(await etcd.list(`/registry/${kind}/`)));
  // The folder may not exist: the servers can come from another one.
  await mkdir(path.dirname(file), { recursive: true });
  const draft = `${file}.${randomUUID()}`;
  await writeFile(draft, JSON.stringify(entries));
  await rename(draft, file);
}
