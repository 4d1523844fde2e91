/**
 * Tests the container image without a container engine: unpacks it into a folder, and starts it with chroot as its
 * user.
 */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { existsSync, globSync, lstatSync, mkdirSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { copyFile, chmod } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';

import { buildImage } from '../../../scripts/image/build-image.ts';
import { imageLabels, RUNTIME, USER_ID } from '../../../scripts/image/config.ts';
import { areInputsCached } from '../../../scripts/image/inputs.ts';
import { startControlPlane } from '../../servers/control-plane.ts';
import type { ControlPlane } from '../../servers/control-plane.ts';
import { freePort } from '../../servers/ports.ts';
import { Reaper } from '../../servers/reaper.ts';
import { ensureBundle } from '../../support/bundle.ts';
import { HttpClient } from '../../support/http.ts';
import { waitFor } from '../../support/wait-for.ts';

/** The environment of `chroot`: only PATH, so that the image gets no other variable of this machine. */
const PATH = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' };
const architecture = process.arch === 'arm64' ? 'arm64' : 'amd64';
const SOURCE = { version: '0.0.0', revision: '0123456789abcdef0123456789abcdef01234567' };
const skip =
  process.getuid?.() !== 0
    ? 'chroot needs root'
    : !areInputsCached(architecture) && 'the packages of the image are not in the cache: run `npm run image` once';

describe('the container image', { skip }, () => {
  let folder: string;
  let root: string;
  let archive: string;
  let plane: ControlPlane;
  /** The configuration file of the image. */
  let config: { config: object };

  before(async () => {
    folder = await Reaper.shared().temporaryFolder('keyferry-image-');
    [archive = ''] = buildImage([architecture], await ensureBundle(), path.join(folder, 'first'), SOURCE);
    root = path.join(folder, 'root');
    mkdirSync(root);
    const content = await promisify(execFile)('tar', ['-xOf', archive, 'manifest.json']);
    const [{ Config, Layers }] = JSON.parse(content.stdout) as [{ Config: string; Layers: string[] }];
    config = JSON.parse(readFileSync(path.join(folder, 'first/oci', Config), 'utf8')) as typeof config;
    for (const layer of Layers) {
      await promisify(execFile)('tar', ['-xzpf', path.join(folder, 'first/oci', layer), '-C', root]);
    }
    plane = await startControlPlane({ controllerManager: false, crds: true });
    await copyFile(plane.kubeconfigPath, path.join(root, 'tmp/kubeconfig'));
    await chmod(path.join(root, 'tmp/kubeconfig'), 0o644);
    await chmod(folder, 0o755);
  });
  after(async () => {
    await plane.stop();
    await Reaper.shared().removeFolder(folder);
  });

  const chroot = (...command: readonly string[]): string[] => [`--userspec=${USER_ID}:${USER_ID}`, root, ...command];

  it('the container image has at most 60 MB, and two builds with the same inputs have the same bytes', async () => {
    assert.ok(statSync(archive).size <= 60e6);
    const [again = ''] = buildImage([architecture], await ensureBundle(), path.join(folder, 'second'), SOURCE);
    assert.ok(readFileSync(archive).equals(readFileSync(again)));
  });

  it('the container image names its commit and has the licence of every package, and its SBOM lists every package', () => {
    assert.deepEqual(config.config, { ...RUNTIME, Labels: imageLabels(SOURCE) });
    assert.equal(imageLabels(SOURCE)['org.opencontainers.image.revision'], SOURCE.revision);
    const packages = readdirSync(path.join(root, 'var/lib/dpkg/status.d'));
    assert.ok(packages.includes('libstdc++6'));
    for (const name of [...packages, 'node']) {
      assert.ok(existsSync(path.join(root, 'usr/share/doc', name, 'copyright')), name);
    }
    const sbom = JSON.parse(
      readFileSync(path.join(folder, `first/keyferry-0.0.0-${architecture}.cdx.json`), 'utf8'),
    ) as { components: { name: string }[] };
    const socks = ['agent-base', 'debug', 'ip-address', 'ms', 'smart-buffer', 'socks', 'socks-proxy-agent'];
    const bundled = ['prom-client', 're2js', 'yaml', ...socks];
    assert.deepEqual(
      new Set(sbom.components.map(({ name }) => name)),
      new Set([...packages, 'node', ...bundled]),
      'a package in the bundle is not in the SBOM, or another one is',
    );
  });

  it('in the container image, the user of Keyferry has permission to write only to /tmp', () => {
    const writable = files(root).filter((file) => {
      const { mode, uid, gid } = lstatSync(path.join(root, file));
      const bits = 0o002 | (gid === USER_ID ? 0o020 : 0) | (uid === USER_ID ? 0o200 : 0);
      return (mode & bits) !== 0;
    });
    assert.deepEqual(writable, ['tmp']);
  });

  it('if the container image is started with the program name of an original, Keyferry runs the command for this original', async () => {
    for (const [program, command] of [
      ['/manager', 'mirrors'],
      ['/k8s-replicator', 'replicator'],
      ['/ccm', 'syncsecret-ccm'],
      ['/kubelb', 'syncsecret-manager'],
      ['/controller.sh', 'generator'],
    ] as const) {
      const { stdout } = await promisify(execFile)('chroot', chroot(program, '--help'), { env: PATH });
      assert.match(stdout, new RegExp(`^Usage: keyferry ${command} `));
    }
  });

  it('Keyferry in the container image becomes ready and writes no file, not even to /tmp', async () => {
    const state = (): Map<string, string> =>
      new Map(
        files(root).map((file) => {
          const { mode, size, mtimeMs, ctimeMs } = lstatSync(path.join(root, file));
          return [file, `${mode} ${size} ${mtimeMs} ${ctimeMs}`];
        }),
      );
    const before = state();
    const address = `127.0.0.1:${await freePort()}`;
    const command = ['/usr/local/bin/keyferry', 'run', '--kubeconfig=/tmp/kubeconfig', `--status-address=${address}`];
    const child = spawn('chroot', chroot(...command), { env: PATH, stdio: 'ignore' });
    if (child.pid !== undefined) Reaper.shared().addProcess(child.pid);
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const http = new HttpClient(`http://${address}`);
    await waitFor(
      async () => child.exitCode !== null || (await http.send('/readyz', { timeoutMs: 1000 })).status === 200,
    );
    assert.equal(child.exitCode, null, 'it still runs');
    child.kill('SIGTERM');
    assert.equal(await ended, 0);
    assert.deepEqual(state(), before);
  });
});

/** Every file and folder below a folder. Symbolic links are left out: they have no permissions. */
function files(folder: string): string[] {
  return globSync('**', { cwd: folder, withFileTypes: true })
    .filter((entry) => !entry.isSymbolicLink())
    .map((entry) => path.relative(folder, path.join(entry.parentPath, entry.name)));
}
