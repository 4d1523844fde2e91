/** Tests the npm package: packs it, and installs it in an empty folder without the checkout and without a network. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, it } from 'node:test';
import { promisify } from 'node:util';

import { readCrds } from '../../../scripts/crd/read-crds.ts';
import { Reaper } from '../../servers/reaper.ts';
import { ensureBundle } from '../../support/bundle.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
/** The files that the package may contain: no sources, tests or documents. */
const CONTENT = /^(package\.json|README\.md|LICENSE|bin\/|dist\/keyferry(-ui)?\.cjs$|deploy\/)/;

let folder: string;
let packed: readonly string[];
/** Text that `npm install` wrote to stderr. */
let warnings: string;

before(async () => {
  await ensureBundle();
  folder = await Reaper.shared().temporaryFolder('keyferry-npm-');
  const options = ['--json', '--ignore-scripts', `--pack-destination=${folder}`];
  const { stdout } = await npm(ROOT, ['pack', ...options]);
  const [{ filename, files }] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  packed = files.map((file) => file.path);
  await npm(folder, ['init', '--yes']);
  // Leaves out the optional dependency, which is Node itself. The Node of this test runs the package.
  ({ stderr: warnings } = await npm(folder, [
    'install',
    '--offline',
    '--omit=optional',
    '--no-audit',
    `./${filename}`,
  ]));
});
after(async () => await Reaper.shared().removeFolder(folder));

it('the npm package contains the program and its manifests, and nothing else', () => {
  assert.deepEqual(
    packed.filter((file) => !CONTENT.test(file)),
    [],
  );
  for (const file of [
    'dist/keyferry.cjs',
    'dist/keyferry-ui.cjs',
    'bin/keyferry.cjs',
    'deploy/keyferry.yaml',
    'deploy/rbac.yaml',
  ]) {
    assert.ok(packed.includes(file), file);
  }
});

it('the npm package installs without a warning', () => {
  assert.equal(warnings, '');
});

it('the npm package builds its bundle when it is packed, and runs no script when it is installed', async () => {
  const { scripts } = JSON.parse(await readFile(path.join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };
  assert.equal(scripts['prepack'], 'npm run build');
  // npm runs the script `dependencies` only in a checkout. In an installed package, npm skips the four scripts below
  // and warns about them.
  assert.equal(scripts['dependencies'], 'npm run build');
  for (const name of ['preinstall', 'install', 'postinstall', 'prepare']) assert.equal(scripts[name], undefined, name);
});

it('the npm package installs no other package', async () => {
  const installed = await readdir(path.join(folder, 'node_modules'));
  assert.deepEqual(
    installed.filter((name) => !name.startsWith('.')),
    ['keyferry'],
  );
});

it('the installed npm package runs from any folder, with the Node that the user has installed', async () => {
  const { stdout } = await run('keyferry', ['version', '-o', 'json']);
  assert.equal((JSON.parse(stdout) as { node: string }).node, process.versions.node);
  assert.equal((await run('keyferry', ['crds'])).stdout, readCrds());
});

it('the installed npm package has a plugin for kubectl, `kubectl keyferry`', async () => {
  const { stdout } = await run('kubectl-keyferry', ['status', '--help']);
  assert.match(stdout, /^Usage: keyferry status/);
});

it('kubectl finds the completion of the plugin in the installed npm package, and what follows a word', async () => {
  const complete = async (...words: readonly string[]): Promise<string> => {
    const bin = path.join(folder, 'node_modules/.bin');
    const env = { PATH: [bin, path.dirname(process.execPath), '/usr/bin', '/bin'].join(path.delimiter), HOME: folder };
    return (await promisify(execFile)(path.join(bin, 'kubectl_complete-keyferry'), words, { env })).stdout;
  };
  assert.match(await complete('stat'), /^status\tshow what .*\n:4\n$/);
  assert.equal(await complete('plan', ''), ':0\n');
});

async function npm(cwd: string, args: readonly string[]): Promise<{ stdout: string; stderr: string }> {
  // npm settings of the caller are left out, because npm warns about some of them.
  const inherited = Object.entries(process.env).filter(([name]) => !/^npm_config_/i.test(name));
  const env = { ...Object.fromEntries(inherited), npm_config_userconfig: path.join(folder, 'npmrc') };
  return await promisify(execFile)('npm', [...args], { cwd, env, maxBuffer: 16 * 1024 * 1024 });
}

async function run(name: string, args: readonly string[]): Promise<{ stdout: string; stderr: string }> {
  const program = path.join(folder, 'node_modules/.bin', name);
  const env = { PATH: path.dirname(process.execPath), HOME: folder };
  return await promisify(execFile)(process.execPath, [program, ...args], {
    cwd: '/',
    env,
    maxBuffer: 16 * 1024 * 1024,
  });
}
