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

import { HttpClient } from '../support/http.ts';
import { cacheFolder, ensureServer } from './ensure.ts';
import type { EnsureOptions } from './ensure.ts';

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
/** etcd accepts 128 operations in a transaction. */
const OPERATIONS = 128;
/** etcd answers at once; the time is for a busy machine. */
const TIMEOUT_MS = 60_000;

/** A key of etcd and its value, in base64 as in etcd's JSON. */
interface Entry {
  readonly key: string;
  readonly value: string;
}

/** Starts the first API server on an empty etcd. @param start resolves when the API server is ready */
export async function withBootstrapObjects(
  etcdPort: number,
  options: EnsureOptions & { readonly apiServerFlags?: readonly string[] },
  start: () => Promise<void>,
): Promise<void> {
  // Flags may change what the API server creates.
  if ((options.apiServerFlags ?? []).length > 0) return start();
  const etcdUrl = `http://127.0.0.1:${etcdPort}`;
  const file = await fileFor(await ensureServer('kube-apiserver', options));
  const isKnown = await writeObjects(etcdUrl, file);
  await start();
  if (!isKnown) await keepObjects(etcdUrl, file);
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
async function writeObjects(etcdUrl: string, file: string): Promise<boolean> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
  if (text === undefined) return false;
  const entries = JSON.parse(text) as readonly Entry[];
  for (let from = 0; from < entries.length; from += OPERATIONS) {
    const success = entries.slice(from, from + OPERATIONS).map((entry) => ({ requestPut: entry }));
    await send(etcdUrl, 'txn', { success });
  }
  return true;
}

/** Keeps the objects of a control plane that is ready and was not used yet. Two may do so at once: the file is renamed into place. */
async function keepObjects(etcdUrl: string, file: string): Promise<void> {
  const entries: Entry[] = [];
  for (const kind of KINDS) {
    const prefix = `/registry/${kind}/`;
    // The end is exclusive: `0` follows `/`.
    const range = { key: base64(prefix), range_end: base64(`${prefix.slice(0, -1)}0`) };
    const { kvs = [] } = (await send(etcdUrl, 'range', range)) as { kvs?: readonly Entry[] };
    entries.push(...kvs.map(({ key, value }) => ({ key, value })));
  }
  // It may not exist yet: the servers can come from another folder.
  await mkdir(path.dirname(file), { recursive: true });
  const draft = `${file}.${randomUUID()}`;
  await writeFile(draft, JSON.stringify(entries));
  await rename(draft, file);
}

/** Not with `fetch`, which each process would load for these few calls. */
async function send(etcdUrl: string, call: 'range' | 'txn', body: unknown): Promise<unknown> {
  using http = new HttpClient(etcdUrl);
  const answer = await http.send(`/v3/kv/${call}`, {
    method: 'POST',
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (answer.status !== 200) throw new Error(`etcd answered ${call} with ${answer.status}: ${answer.text}`);
  return JSON.parse(answer.text);
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
