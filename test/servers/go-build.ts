/** Builds a server from a Go module. If something is missing for the build, the error says what. */
import { execFile, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmod, copyFile, cp, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { constants, setPriority } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

import type { ServerRecipe } from './catalogue.ts';
import { Reaper } from './reaper.ts';

const PROGRESS_MS = 5_000;
const NO_NETWORK =
  /no such host|dial tcp|i\/o timeout|TLS handshake timeout|connection refused|proxyconnect|network is unreachable|server misbehaving|module lookup disabled/i;

/** A server is not available. The message says what is missing, and how to get it. */
export class ServerUnavailableError extends Error {
  override readonly name = 'ServerUnavailableError';
}

export interface BuildOptions {
  readonly onProgress: (line: string) => void;
  readonly env: NodeJS.ProcessEnv;
  readonly signal?: AbortSignal | undefined;
  readonly lowPriority?: boolean;
}

/**
 * Builds the file `target`. The compiler writes a file with a temporary name next to it. After a successful build, this
 * file is renamed. So an interrupted build leaves no incomplete binary as `target`.
 * @throws ServerUnavailableError if Go, the network or disk space is missing, or if the build fails
 */
export async function goBuild(recipe: ServerRecipe, target: string, options: BuildOptions): Promise<void> {
  const go = await findGo(recipe, options.env);
  const folder = path.dirname(target);
  await mkdir(folder, { recursive: true });
  await removePartials(folder);
  const partial = `${target}.partial-${randomUUID()}`;
  try {
    await runBuild(go, recipe, partial, options);
    await rename(partial, target);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}

/** Removes files of builds that were killed. The caller must hold the build lock, so that no other build is running. */
async function removePartials(folder: string): Promise<void> {
  const names = (await readdir(folder)).filter((name) => name.includes('.partial-'));
  await Promise.all(names.map((name) => rm(path.join(folder, name), { force: true })));
}

/**
 * Runs Go with its compilers as one process group. If this process ends, so does the group, and its files are removed.
 */
async function runBuild(go: string, recipe: ServerRecipe, output: string, options: BuildOptions): Promise<void> {
  const startedAt = performance.now();
  const label = `${recipe.name} ${recipe.version}`;
  options.onProgress(`building ${label}`);
  const progress = setInterval(() => {
    const seconds = Math.round((performance.now() - startedAt) / 1000);
    options.onProgress(`building ${label}: ${seconds} s (a few minutes at first, then cached)`);
  }, PROGRESS_MS);
  const reaper = Reaper.shared();
  const scratch = await reaper.temporaryFolder('keyferry-go-build-');
  let group: number | undefined;
  try {
    const more = await changedModule(go, recipe, scratch, options.env);
    const child = spawn(go, ['build', ...more, '-o', output, ...recipe.buildArgs], {
      cwd: recipe.moduleDir,
      env: { GOTMPDIR: scratch, ...options.env, ...recipe.buildEnv },
      stdio: ['ignore', 'ignore', 'pipe'],
      signal: options.signal,
      detached: true,
    });
    if (child.pid !== undefined) {
      reaper.addProcess((group = -child.pid));
      // Go starts the compilers, and they inherit this priority.
      if (options.lowPriority === true) setPriority(child.pid, constants.priority.PRIORITY_LOW);
    }
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr = (stderr + text).slice(-64 * 1024);
    });
    const code = await new Promise<number | string | null>((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code, signal) => resolve(code ?? signal));
    });
    if (code !== 0) throw buildError(recipe, stderr, code);
  } finally {
    clearInterval(progress);
    if (group !== undefined) {
      endGroup(group);
      reaper.removeProcess(group);
    }
    await reaper.removeFolder(scratch);
  }
  options.onProgress(`built ${label} in ${Math.round((performance.now() - startedAt) / 1000)} s`);
}

/**
 * Makes a copy of the Go module, with the changes of the recipe.
 * @returns arguments for `go build`, so that it uses the copy
 */
async function changedModule(
  go: string,
  { changes, moduleDir, buildEnv }: ServerRecipe,
  scratch: string,
  env: NodeJS.ProcessEnv,
): Promise<readonly string[]> {
  if (changes === undefined) return [];
  const options = { cwd: moduleDir, env: { ...env, ...buildEnv } };
  const { stdout } = await promisify(execFile)(go, ['mod', 'download', '-json', changes.module], options);
  const { Dir: source } = JSON.parse(stdout) as { readonly Dir: string };
  const copy = path.join(scratch, 'module');
  // Files in Go's cache are read-only, and so are their copies. So a changed file is removed and written again.
  await cp(source, copy, { recursive: true, mode: 0 });
  for (const [file, text] of Object.entries(changes.files)) {
    const target = path.join(copy, file);
    await chmod(path.dirname(target), 0o755);
    await rm(target, { force: true });
    await writeFile(target, text);
  }
  const goMod = await readFile(path.join(moduleDir, 'go.mod'), 'utf8');
  const [module = ''] = changes.module.split('@');
  await writeFile(path.join(scratch, 'go.mod'), `${goMod}\nreplace ${module} => ${copy}\n`);
  await copyFile(path.join(moduleDir, 'go.sum'), path.join(scratch, 'go.sum'));
  return [`-modfile=${path.join(scratch, 'go.mod')}`];
}

/** Kills a process group. @param group - the negated process id of its leader */
function endGroup(group: number): void {
  try {
    process.kill(group, 'SIGKILL');
  } catch (error) {
    // ESRCH: the group has no processes any more. This is normal after a build.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Makes the error for a failed `go build`. Go's output shows what is missing. */
export function buildError(recipe: ServerRecipe, stderr: string, code: number | string | null): ServerUnavailableError {
  const tail = stderr.trim().split('\n').slice(-12).join('\n');
  const because = (reason: string): ServerUnavailableError =>
    new ServerUnavailableError(`cannot build ${recipe.name} ${recipe.version}: ${reason}\n${tail}`);
  if (/no space left on device|disk quota exceeded/i.test(stderr)) {
    return because(
      'the disk is full. The build needs about 4 GB in the Go build cache, the module cache and $TMPDIR together',
    );
  }
  if (NO_NETWORK.test(stderr)) {
    return because(
      'a Go module could not be downloaded. The first build needs the network (see `go help goproxy` for a proxy)',
    );
  }
  return because(`go build ended with ${code ?? 'no exit code'}`);
}

/**
 * Finds a Go that can build the module: on the PATH, in $GOROOT, or in the default folder of Go's installer.
 * @throws ServerUnavailableError that names the required Go version
 */
export async function findGo(
  recipe: ServerRecipe,
  env: NodeJS.ProcessEnv,
  installed = '/usr/local/go/bin/go',
): Promise<string> {
  const candidates = ['go', ...(env['GOROOT'] ? [path.join(env['GOROOT'], 'bin', 'go')] : []), installed];
  for (const candidate of candidates) {
    try {
      // In the module's folder, Go downloads the toolchain that go.mod requires, or fails if it cannot.
      await promisify(execFile)(candidate, ['env', 'GOVERSION'], { cwd: recipe.moduleDir, env });
      return candidate;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') continue;
      const stderr = (error as { stderr?: string }).stderr?.trim() || String(error);
      const needed = `cannot build ${recipe.name}: Go ${recipe.goVersion} or newer is needed`;
      const offline = NO_NETWORK.test(stderr) ? ', and an older one downloads it only with a network' : '';
      throw new ServerUnavailableError(`${needed}${offline}: ${stderr}`, { cause: error });
    }
  }
  throw new ServerUnavailableError(
    `cannot build ${recipe.name}: Go is not installed. Install Go ${recipe.goVersion} or newer, ` +
      'or set KEYFERRY_SERVERS to a folder that holds the binaries',
  );
}
