/** Finds real servers in a folder of the user or in the cache. If a server is missing, builds it from a Go module. */
import { createHash } from 'node:crypto';
import { accessSync, constants, statSync } from 'node:fs';
import { mkdir, rename, rm, symlink } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';

import { withLock } from './build-lock.ts';
import { serverRecipe } from './catalogue.ts';
import type { ServerName } from './catalogue.ts';
import { goBuild } from './go-build.ts';

export interface EnsureOptions {
  /** Gets a line when a build begins, and further lines while it runs. */
  readonly onProgress?: (line: string) => void;
  /** The environment. Default: `process.env`. */
  readonly env?: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal;
  /** Called when this process begins to build. Not called if the server exists or another process builds it. */
  readonly onBuild?: () => void;
  /** Whether the build runs at low process priority, so that other work goes first. Default: false. */
  readonly lowPriority?: boolean;
}

/** The folder for built servers: `$XDG_CACHE_HOME/keyferry/servers`; without the variable ~/.cache/keyferry/servers. */
export function cacheFolder(env: NodeJS.ProcessEnv = process.env): string {
  const base = env['XDG_CACHE_HOME'];
  return path.join(
    base !== undefined && path.isAbsolute(base) ? base : path.join(homedir(), '.cache'),
    'keyferry/servers',
  );
}

/**
 * The path of a server in `$KEYFERRY_SERVERS`, `$KUBEBUILDER_ASSETS` or the cache; `undefined` if none of them has it.
 */
export function findServer(name: ServerName, env: NodeJS.ProcessEnv = process.env): string | undefined {
  const folders = [env['KEYFERRY_SERVERS'], env['KUBEBUILDER_ASSETS']].filter(
    (folder) => folder !== undefined && folder !== '',
  );
  const candidates = [...folders.map((folder) => path.resolve(folder as string, name)), cachedPath(name, env)];
  return candidates.find((file) => isExecutable(file));
}

/**
 * The path of a server. If the server is missing, builds it.
 * @throws ServerUnavailableError that says what is missing: Go, the network, disk space
 */
export async function ensureServer(name: ServerName, options: EnsureOptions = {}): Promise<string> {
  const env = options.env ?? process.env;
  const found = findServer(name, env);
  if (found !== undefined) return found;
  options.signal?.throwIfAborted();
  const onProgress = options.onProgress ?? ((): void => undefined);
  await mkdir(cacheFolder(env), { recursive: true });
  const target = cachedPath(name, env);
  let toldAt = -Infinity;
  return withLock(
    path.join(cacheFolder(env), 'build.lock'),
    async () => {
      if (isExecutable(target)) return target;
      options.onBuild?.();
      await goBuild(serverRecipe(name, env), target, { ...options, onProgress, env });
      return target;
    },
    (holder) => {
      // All servers share one lock, so the process that holds it may be building another server.
      if (isExecutable(target)) return target;
      if (performance.now() - toldAt < 5_000) return undefined;
      toldAt = performance.now();
      onProgress(`waiting for ${name}: process ${holder} is building`);
      return undefined;
    },
    options.signal,
  );
}

/**
 * Builds several servers one after the other, in this order. Each promise settles when its server is available, so a
 * control plane can start while Vault is built. If a build fails, the next one begins all the same.
 */
export function ensureServers<N extends ServerName>(
  names: readonly N[],
  options: EnsureOptions = {},
): Readonly<Record<N, Promise<string>>> {
  const paths = {} as Record<N, Promise<string>>;
  let previous: Promise<unknown> = Promise.resolve();
  for (const name of names) {
    const after = previous;
    const mine = after.then(
      () => ensureServer(name, options),
      () => ensureServer(name, options),
    );
    // The caller may await an earlier promise first. If this build fails meanwhile, Node would report an unhandled
    // rejection.
    mine.catch(() => undefined);
    paths[name] = mine;
    previous = mine;
  }
  return paths;
}

/**
 * The paths of all these servers. If a build fails, no more builds begin: they would take minutes, and their output
 * would push the reason off the screen.
 * @throws ServerUnavailableError, as `ensureServer`
 */
export async function ensureAll(
  names: readonly ServerName[],
  options: EnsureOptions = {},
): Promise<Partial<Record<ServerName, string>>> {
  const failed = new AbortController();
  const signals = [failed.signal, ...(options.signal === undefined ? [] : [options.signal])];
  const pending = ensureServers(names, { ...options, signal: AbortSignal.any(signals) });
  const paths: Partial<Record<ServerName, string>> = {};
  try {
    for (const name of names) paths[name] = await pending[name];
    return paths;
  } finally {
    failed.abort(new Error('another server cannot be had'));
    await Promise.allSettled(Object.values(pending));
  }
}

/**
 * One folder that has all these servers under their own names. If they are in several folders, it is a folder with
 * links in the cache.
 */
export async function serversFolder(
  paths: Readonly<Partial<Record<ServerName, string>>>,
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  const files = Object.values(paths);
  const folders = new Set(files.map((file) => path.dirname(file)));
  const [only] = folders;
  if (only !== undefined && folders.size === 1) return only;
  const key = createHash('sha256').update(JSON.stringify(files.toSorted())).digest('hex').slice(0, 12);
  const folder = path.join(cacheFolder(env), `bin-${key}`);
  await mkdir(folder, { recursive: true });
  for (const file of files) {
    const draft = path.join(folder, `.${path.basename(file)}.${process.pid}`);
    await rm(draft, { force: true });
    await symlink(file, draft);
    await rename(draft, path.join(folder, path.basename(file)));
  }
  return folder;
}

function cachedPath(name: ServerName, env: NodeJS.ProcessEnv): string {
  return path.join(cacheFolder(env), serverRecipe(name, env).cacheKey, name);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch (error) {
    // Missing or not executable here: the search continues in the next folder.
    void error;
    return false;
  }
}
