/** The files of the image, a folder for each layer. The layer that changes most is the last. */
import {
  chmodSync,
  copyFileSync,
  cpSync,
  globSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';

import { CONTROLLER_COMMANDS } from '../../src/config/commands.ts';
import { execute } from './execute.ts';
import type { ImageInputs } from './inputs.ts';

/** The number that Kubernetes' restricted images use for `nonroot`. */
export const USER_ID = 65532;
export const NODE_PATH = '/usr/local/bin/node';
export const ENTRY_POINT = '/usr/local/bin/keyferry';

const ROOT = path.join(import.meta.dirname, '..', '..');
const LAUNCHER = '/app/bin/keyferry.cjs';
/** Parts of the packages that a program in a container does not use: converters of character sets, documents. */
const UNUSED = [
  'usr/lib/*/gconv',
  'usr/share/lintian',
  'usr/share/man',
  'usr/share/gcc',
  'usr/share/gdb',
  'usr/sbin',
  'etc/ca-certificates',
];

/** Makes the folders of the layers in `folder`, which must be empty. @returns their paths, the lowest first */
export function makeTrees(inputs: ImageInputs, bundle: string, folder: string): string[] {
  const [system, node, app] = ['system', 'node', 'app'].map((name) => path.join(folder, name)) as [
    string,
    string,
    string,
  ];
  makeSystem(inputs.packages, system);
  makeNode(inputs.node, node, folder);
  makeApp(bundle, app);
  return [system, node, app];
}

function makeSystem(packages: ImageInputs['packages'], tree: string): void {
  mkdirSync(tree);
  for (const [name, file] of packages) {
    execute('dpkg-deb', ['--extract', file, tree], tree);
    // Scanners find the packages of images without dpkg here.
    write(tree, `var/lib/dpkg/status.d/${name}`, execute('dpkg-deb', ['--field', file], tree));
  }
  for (const pattern of UNUSED) remove(tree, pattern);
  remove(tree, 'usr/share/doc/**/*', (file) => !file.endsWith('copyright'));
  const certificates = globSync('usr/share/ca-certificates/mozilla/*.crt', { cwd: tree }).toSorted();
  write(
    tree,
    'etc/ssl/certs/ca-certificates.crt',
    certificates.map((file) => readFileSync(path.join(tree, file), 'utf8')).join(''),
  );
  remove(tree, 'usr/share/ca-certificates');
  write(
    tree,
    'etc/passwd',
    `root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:${USER_ID}:${USER_ID}:nonroot:/home/nonroot:/sbin/nologin\n`,
  );
  write(tree, 'etc/group', `root:x:0:\nnonroot:x:${USER_ID}:\n`);
  write(tree, 'etc/nsswitch.conf', 'hosts: files dns\n');
  write(
    tree,
    'etc/os-release',
    'PRETTY_NAME="Keyferry, on packages of Debian 12"\nID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n',
  );
  mkdirSync(path.join(tree, 'home/nonroot'), { recursive: true });
  mkdirSync(path.join(tree, 'tmp'));
  chmodSync(path.join(tree, 'tmp'), 0o1777);
}

function makeNode(tarball: string, tree: string, folder: string): void {
  const unpacked = path.join(folder, 'unpacked');
  mkdirSync(unpacked);
  execute(
    'tar',
    ['-xzf', tarball, '--strip-components=1', '--no-same-owner', 'package/bin/node', 'package/LICENSE'],
    unpacked,
  );
  const node = path.join(tree, NODE_PATH);
  mkdirSync(path.dirname(node), { recursive: true });
  copyFileSync(path.join(unpacked, 'bin/node'), node);
  chmodSync(node, 0o755);
  write(tree, 'usr/share/doc/node/copyright', readFileSync(path.join(unpacked, 'LICENSE'), 'utf8'));
  rmSync(unpacked, { recursive: true });
}

function makeApp(bundle: string, tree: string): void {
  const launcher = readFileSync(path.join(ROOT, 'bin/keyferry.cjs'), 'utf8');
  // The image has no `env`.
  write(tree, LAUNCHER, launcher.replace(/^#!.*/, `#!${NODE_PATH}`));
  chmodSync(path.join(tree, LAUNCHER), 0o755);
  for (const file of ['bin/node-flags.cjs', 'LICENSE'])
    write(tree, `app/${file}`, readFileSync(path.join(ROOT, file), 'utf8'));
  mkdirSync(path.join(tree, 'app/dist'));
  cpSync(bundle, path.join(tree, 'app/dist/keyferry.cjs'));
  const originals = CONTROLLER_COMMANDS.flatMap(({ original }) =>
    original === undefined ? [] : [`/${original.binary}`],
  );
  for (const link of [ENTRY_POINT, ...originals]) {
    mkdirSync(path.dirname(path.join(tree, link)), { recursive: true });
    symlinkSync(LAUNCHER, path.join(tree, link));
  }
}

function write(tree: string, name: string, content: string): void {
  const file = path.join(tree, name);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, content);
}

function remove(tree: string, pattern: string, which: (file: string) => boolean = () => true): void {
  for (const entry of globSync(pattern, { cwd: tree, withFileTypes: true })) {
    const file = path.join(entry.parentPath, entry.name);
    if (which(file) && (pattern.includes('**') ? !entry.isDirectory() : true)) rmSync(file, { recursive: true });
  }
}
