import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { copyFileSync, existsSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, describe, it } from 'node:test';

import { waitFor } from '../support/wait-for.ts';
import { withLock } from './build-lock.ts';
import { serverRecipe } from './catalogue.ts';
import { cacheFolder, ensureServer, findServer } from './ensure.ts';
import { buildError, findGo, ServerUnavailableError } from './go-build.ts';

const folder = await mkdtemp(path.join(tmpdir(), 'keyferry-ensure-'));
after(() => rm(folder, { recursive: true }));

/**
 * Makes an environment with its own cache, and with a shell script in place of the program `go`.
 * @param build what the script does for `go build`
 */
async function makeEnvironment(name: string, build: string): Promise<NodeJS.ProcessEnv> {
  const home = path.join(folder, name);
  await mkdir(path.join(home, 'bin'), { recursive: true });
  const go = path.join(home, 'bin', 'go');
  await writeFile(go, `#!/bin/sh\nif [ "$1" = env ]; then echo go1.26.0; exit 0; fi\nout=$3\n${build}\n`);
  await chmod(go, 0o755);
  return { PATH: `${path.join(home, 'bin')}:/usr/bin:/bin`, XDG_CACHE_HOME: path.join(home, 'cache') };
}

async function cached(env: NodeJS.ProcessEnv): Promise<string[]> {
  return (await readdir(cacheFolder(env), { recursive: true })).filter((name) => name.includes('/'));
}

/** Whether a process runs. An exited process is a zombie until its parent reads the exit code; it does not count. */
async function runs(pid: string): Promise<boolean> {
  try {
    return !/^State:\s+Z/m.test(await readFile(`/proc/${pid}/status`, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}

describe('servers', () => {
  it('if an environment variable chooses another version of a server, that version has its own folder in the cache', () => {
    const usual = { apiServer: serverRecipe('kube-apiserver', {}), vault: serverRecipe('vault', {}) };
    const env = { KEYFERRY_TEST_KUBERNETES: '1.34', KEYFERRY_TEST_VAULT: 'openbao' };
    assert.match(serverRecipe('kube-apiserver', env).version, /^v1\.34\./);
    assert.match(serverRecipe('kube-controller-manager', env).version, /^v1\.34\./);
    assert.notEqual(serverRecipe('vault', env).cacheKey, usual.vault.cacheKey);
    assert.equal(serverRecipe('etcd', env).cacheKey, serverRecipe('etcd', {}).cacheKey);
    assert.equal(serverRecipe('kube-apiserver', { KEYFERRY_TEST_KUBERNETES: '' }).cacheKey, usual.apiServer.cacheKey);
    assert.throws(() => serverRecipe('vault', { KEYFERRY_TEST_VAULT: 'none' }), /must be one of openbao/);
  });

  it('if a server is in KEYFERRY_SERVERS or KUBEBUILDER_ASSETS, it is used from there', async () => {
    const env = await makeEnvironment('named', 'exit 1');
    const mine = path.join(folder, 'mine');
    await mkdir(mine);
    await writeFile(path.join(mine, 'etcd'), '#!/bin/sh\n', { mode: 0o755 });
    await writeFile(path.join(mine, 'vault'), 'not executable', { mode: 0o644 });
    for (const variable of ['KEYFERRY_SERVERS', 'KUBEBUILDER_ASSETS']) {
      const named = { ...env, [variable]: mine };
      assert.equal(await ensureServer('etcd', { env: named }), path.join(mine, 'etcd'));
      assert.equal(findServer('vault', named), undefined);
    }
  });

  it('a missing server is built one time, with progress lines; later it comes from the cache', async () => {
    const env = await makeEnvironment(
      'build',
      'echo "#!/bin/sh" > "$out"; chmod +x "$out"; echo x >> "$(dirname "$0")/builds"',
    );
    const lines: string[] = [];
    let builds = 0;
    const options = { env, onProgress: (line: string) => lines.push(line), onBuild: () => (builds += 1) };
    const both = await Promise.all([1, 2].map(() => ensureServer('etcd', options)));
    assert.equal(both[0], both[1]);
    await ensureServer('etcd', options);
    assert.equal(builds, 1);
    assert.equal(await readFile(path.join(folder, 'build', 'bin', 'builds'), 'utf8'), 'x\n');
    assert.ok(
      lines.some((line) => line.startsWith('built etcd v')),
      lines.join('\n'),
    );
    assert.deepEqual(await cached(env), [`${serverRecipe('etcd').cacheKey}/etcd`]);
  });

  it('if a build fails or is killed, no partial binary is left', async () => {
    const env = await makeEnvironment(
      'half',
      'echo half > "$out"; chmod +x "$out"; echo "link: no space left on device" >&2; exit 1',
    );
    await assert.rejects(ensureServer('etcd', { env }), (error) => {
      assert.ok(error instanceof ServerUnavailableError);
      return /^cannot build etcd v\S+: the disk is full/.test(error.message);
    });
    assert.deepEqual(await cached(env), []);

    const reported = path.join(folder, 'reported');
    const slow = await makeEnvironment(
      'half',
      `echo half > "$out"; chmod +x "$out"; sleep 60 & echo "$! $GOTMPDIR" > ${reported}.new; mv ${reported}.new ${reported}; wait`,
    );
    const aborting = new AbortController();
    const building = ensureServer('etcd', { env: slow, signal: aborting.signal });
    const [compiler = '', scratch = ''] = await waitFor(async () => {
      return existsSync(reported) ? (await readFile(reported, 'utf8')).trim().split(' ') : undefined;
    });
    assert.ok(existsSync(scratch));
    aborting.abort();
    await assert.rejects(building, { name: 'AbortError' });
    assert.deepEqual(await cached(slow), []);
    assert.ok(!existsSync(scratch));
    await waitFor(async () => !(await runs(compiler)), { message: 'what go had started to end' });
  });

  it('if a build lacks Go, disk space or another prerequisite, its error names what is missing', async () => {
    const recipe = serverRecipe('etcd');
    const messageOf = (stderr: string): string => buildError(recipe, stderr, 1).message;
    assert.match(messageOf('dial tcp: lookup proxy.invalid: no such host'), /could not be downloaded/);
    assert.match(messageOf('write /tmp/x: no space left on device'), /disk is full/);
    assert.match(messageOf('undefined: Foo'), /go build ended with 1\nundefined: Foo/);

    const old = await makeEnvironment('old', '');
    const go = path.join(folder, 'old', 'bin', 'go');
    await writeFile(go, '#!/bin/sh\necho "go: go.mod requires go >= 1.26.0 (running go 1.20)" >&2; exit 1\n');
    await assert.rejects(ensureServer('etcd', { env: old }), /Go 1\.26\.0 or newer is needed: .*running go 1\.20/);
    await writeFile(
      go,
      '#!/bin/sh\necho "go: download go1.26.0: dial tcp: lookup x.invalid: no such host" >&2; exit 1\n',
    );
    await assert.rejects(
      ensureServer('etcd', { env: old }),
      /older one downloads it only with a network: .*x\.invalid/,
    );

    const bare = { PATH: path.join(folder, 'nowhere') };
    const noGo = /^cannot build etcd: Go is not installed\. Install Go 1\.26\.0 or newer, or set KEYFERRY_SERVERS/;
    await assert.rejects(findGo(recipe, bare, path.join(folder, 'nowhere/go')), { message: noGo });
  });
});

describe('npm run servers', () => {
  const cli = path.join(import.meta.dirname, 'cli.ts');

  async function run(env: NodeJS.ProcessEnv): Promise<{ code: number | null; lines: string[] }> {
    const child = spawn(process.execPath, [cli], { env, stdio: ['ignore', 'inherit', 'pipe'], timeout: 60_000 });
    let text = '';
    child.stderr.setEncoding('utf8').on('data', (more: string) => (text += more));
    const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
    return { code, lines: text.trimEnd().split('\n') };
  }

  it("without a network, npm run servers prints Go's message", async (t) => {
    const home = path.join(folder, 'offline');
    // On port 1 no server listens, and the module cache is empty. So Go cannot get the modules.
    const offline = { GOPROXY: 'http://127.0.0.1:1', GOMODCACHE: path.join(home, 'mod'), GOFLAGS: '-modcacherw' };
    const env = { PATH: process.env['PATH'], HOME: home, XDG_CACHE_HOME: path.join(home, 'cache'), ...offline };
    try {
      await findGo(serverRecipe('etcd'), env);
    } catch (error) {
      t.skip(String(error));
      return;
    }
    const { code, lines } = await run(env);
    assert.equal(code, 1);
    assert.match(lines.join('\n'), /servers: cannot build etcd v\S+: a Go module could not be downloaded\. .*network/);
    assert.match(lines.at(-1) ?? '', /127\.0\.0\.1:1.*connection refused/);
  });
});

describe('the build lock', () => {
  it('if another process has built the server meanwhile, a process no longer waits for the build lock', async () => {
    const env = await makeEnvironment('waits', 'exit 1');
    const target = path.join(cacheFolder(env), serverRecipe('etcd').cacheKey, 'etcd');
    await mkdir(path.dirname(target), { recursive: true });
    const built = await withLock(
      path.join(cacheFolder(env), 'build.lock'),
      async () => {
        const onProgress = (line: string): void => {
          if (line.startsWith('waiting for etcd')) copyFileSync('/bin/true', target);
        };
        return await ensureServer('etcd', { env, onProgress });
      },
      () => undefined,
    );
    assert.equal(built, target);
  });

  it('if the holder of the build lock has exited, another process takes the lock', async () => {
    const gone = spawn('/bin/true');
    await new Promise((resolve) => gone.once('exit', resolve));
    const file = path.join(folder, 'stale.lock');
    const { hostname } = await import('node:os');
    await writeFile(file, JSON.stringify({ pid: gone.pid, host: hostname() }));
    assert.equal(
      await withLock(
        file,
        () => Promise.resolve('mine'),
        () => undefined,
      ),
      'mine',
    );
  });
});
