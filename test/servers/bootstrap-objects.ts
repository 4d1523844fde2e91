/**
 * What kube-apiserver creates at its first start with an empty etcd: RBAC roles, priority classes, flow schemas. It takes a fifth of the
 * processor time of that start. The first control plane keeps these keys of etcd in a file of the cache, and the later ones write
 * them into their etcd before their API server starts. What lacks, the API server creates as always.
 *
 * Namespaces and what is in them are not among the keys, roles apart: each control plane must be a cluster of its own with its own uid
 * of `kube-system`, by which Keyferry tells clusters apart.
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

/** Starts the first API server on an empty etcd. @param start resolves when the API server is ready */
export async function withBootstrapObjects(
  etcdPort: number,
  options: EnsureOptions & { readonly apiServerFlags?: readonly string[] },
  start: () => Promise<void>,
): Promise<void> {
  // Flags may change what the API server creates.
  if ((options.apiServerFlags ?? []).length > 0) return start();
  using etcd = new EtcdClient(etcdPort);
  const file = await fileFor(await ensureServer('kube-apiserver', options));
  const isKnown = await writeObjects(etcd, file);
  await start();
  if (!isKnown) await keepObjects(etcd, file);
}

/** Another version of the API server, also one at the same path, has another file. */
async function fileFor(apiServer: string): Promise<string> {
  const program = await realpath(apiServer);
  const { size, mtimeMs } = await stat(program);
  const hash = createHash('sha256')
    .update(JSON.stringify([program, size, mtimeMs, KINDS]))
    .digest('hex');
  return path.join(cacheFolder(), `bootstrap-${hash.slice(0, 12)}.json`);
}

/** Returns false if the objects are not known yet. */
async function writeObjects(etcd: EtcdClient, file: string): Promise<boolean> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (text === undefined) return false;
  await etcd.put(JSON.parse(text) as readonly Entry[]);
  return true;
}

/** Keeps the objects of a control plane that is ready and was not used yet. Two may do so at once: the file is renamed into place. */
async function keepObjects(etcd: EtcdClient, file: string): Promise<void> {
  const entries: Entry[] = [];
  for (const kind of KINDS) entries.push(...(await etcd.list(`/registry/${kind}/`)));
  // It may not exist yet: the servers can come from another folder.
  await mkdir(path.dirname(file), { recursive: true });
  const draft = `${file}.${randomUUID()}`;
  await writeFile(draft, JSON.stringify(entries));
  await rename(draft, file);
}
