/**
 * Makes the layers of the image, each as a folder of files. The layer that changes most often (Keyferry) is the last.
 */
import { chmodSync, copyFileSync, globSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import path from 'node:path';

import { makeApp } from './app.ts';
import { NODE_PATH, USER_ID } from './config.ts';
import { execute } from './execute.ts';
import type { ImageInputs } from './inputs.ts';
import { writeIn } from './write-in.ts';

/**
 * Files of the Debian packages that no program in the container uses, such as converters of character sets and manual
 * pages.
 */
const UNUSED = [
  'usr/lib/*/gconv',
  'usr/share/lintian',
  'usr/share/man',
  'usr/share/gcc',
  'usr/share/gdb',
  'usr/sbin',
  'etc/ca-certificates',
];

/**
 * Makes a folder for each layer in `folder`, which must be empty.
 * @returns the paths of these folders, the lowest layer first
 */
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
    // If an image has no dpkg, scanners look in this folder for the data of its packages.
    writeIn(tree, `var/lib/dpkg/status.d/${name}`, execute('dpkg-deb', ['--field', file], tree));
  }
  for (const pattern of UNUSED) remove(tree, pattern);
  keepCopyrights(path.join(tree, 'usr/share/doc'));
  const certificates = globSync('usr/share/ca-certificates/mozilla/*.crt', { cwd: tree }).toSorted();
  writeIn(
    tree,
    'etc/ssl/certs/ca-certificates.crt',
    certificates.map((file) => readFileSync(path.join(tree, file), 'utf8')).join(''),
  );
  remove(tree, 'usr/share/ca-certificates');
  writeIn(
    tree,
    'etc/passwd',
    `root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:${USER_ID}:${USER_ID}:nonroot:/home/nonroot:/sbin/nologin\n`,
  );
  writeIn(tree, 'etc/group', `root:x:0:\nnonroot:x:${USER_ID}:\n`);
  writeIn(tree, 'etc/nsswitch.conf', 'hosts: files dns\n');
  writeIn(
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
  writeIn(tree, 'usr/share/doc/node/copyright', readFileSync(path.join(unpacked, 'LICENSE'), 'utf8'));
  rmSync(unpacked, { recursive: true });
}

/**
 * Deletes all documents of the packages, except the files named `copyright`.
 * @param folder - `usr/share/doc`, with a folder or link per package
 */
function keepCopyrights(folder: string): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const documents = entry.isDirectory() ? readdirSync(path.join(folder, entry.name)) : [];
    for (const name of documents.filter((document) => document !== 'copyright')) {
      rmSync(path.join(folder, entry.name, name), { recursive: true });
    }
  }
}

function remove(tree: string, pattern: string): void {
  for (const name of globSync(pattern, { cwd: tree })) rmSync(path.join(tree, name), { recursive: true });
}
