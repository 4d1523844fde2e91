/**
 * Downloads the inputs of the image, except the bundle: the Debian packages that `debian-packages.json` pins, and the
 * npm package with Node that `package-lock.json` pins. Their checksums must be the pinned ones.
 * `~/.cache/keyferry/image` keeps the files.
 */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';

import { cacheFolder } from '../../test/servers/ensure.ts';
import { DebianArchive, type DebianPin } from './debian.ts';
import pinned from './debian-packages.json' with { type: 'json' };
import { execute } from './execute.ts';

export type Architecture = 'amd64' | 'arm64';

export interface ImageInputs {
  /** Paths of the `.deb` files, by the name of the package. */
  readonly packages: ReadonlyMap<string, string>;
  /** Path of the npm package (tarball) that contains Node. */
  readonly node: string;
}

const ROOT = path.join(import.meta.dirname, '..', '..');

/**
 * Returns the paths of the inputs. Inputs that are not in the cache are downloaded from Debian's archive (with
 * `apt-get`) and from the npm registry.
 * @throws Error if a download fails, or if a file does not have the pinned checksum
 */
export function imageInputs(architecture: Architecture): ImageInputs {
  const folder = inputsFolder();
  mkdirSync(folder, { recursive: true });
  return { packages: debianPackages(architecture, folder), node: nodePackage(architecture, folder) };
}

/** True if all inputs are in the cache, so that `imageInputs` needs no network. */
export function areInputsCached(architecture: Architecture): boolean {
  const files = [...Object.values<DebianPin>(pinned.packages[architecture]).map(debFile), nodePin(architecture).file];
  return files.every((file) => existsSync(path.join(inputsFolder(), file)));
}

function inputsFolder(): string {
  return path.join(path.dirname(cacheFolder()), 'image');
}

/** File name of a Debian package in the cache. */
function debFile({ sha256 }: DebianPin): string {
  return `${sha256}.deb`;
}

function debianPackages(architecture: Architecture, folder: string): Map<string, string> {
  const wanted = Object.entries<DebianPin>(pinned.packages[architecture]);
  const cached = wanted.map(([name, pin]) => [name, path.join(folder, debFile(pin))] as const);
  if (cached.some(([, file]) => !existsSync(file))) {
    withTemporary(folder, (temporary) => {
      new DebianArchive(architecture, temporary).download(wanted);
      const found = new Map(
        readdirSync(temporary)
          .filter((file) => file.endsWith('.deb'))
          .map((file) => [digest(path.join(temporary, file), 'sha256', 'hex'), path.join(temporary, file)]),
      );
      for (const [name, pin] of wanted) {
        const file = found.get(pin.sha256);
        if (file === undefined)
          throw new Error(`${name} ${pin.version} (${architecture}) has another checksum than the pinned one`);
        renameSync(file, path.join(folder, debFile(pin)));
      }
    });
  }
  return new Map(cached);
}

/** The npm package that contains Node for one architecture. */
export interface NodePin {
  readonly name: string;
  readonly version: string;
  /** `sha512-` and the SHA-512 digest in base64. */
  readonly integrity: string;
  /** File name in the cache. */
  readonly file: string;
}

/** @throws Error if `package-lock.json` does not contain the package of Node for this architecture */
export function nodePin(architecture: Architecture): NodePin {
  const name = `node-linux-${architecture === 'amd64' ? 'x64' : 'arm64'}`;
  const lock = JSON.parse(readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { version: string; integrity: string } | undefined>;
  };
  const locked = lock.packages[`node_modules/${name}`];
  if (locked === undefined) throw new Error(`package-lock.json has no ${name}`);
  return { name, ...locked, file: `${name}-${locked.version}.tgz` };
}

function nodePackage(architecture: Architecture, folder: string): string {
  const { name, version, integrity, file } = nodePin(architecture);
  const cached = path.join(folder, file);
  if (existsSync(cached)) return cached;
  withTemporary(folder, (temporary) => {
    execute('npm', ['pack', `${name}@${version}`, '--pack-destination', temporary], temporary);
    const packed = path.join(temporary, file);
    if (`sha512-${digest(packed, 'sha512', 'base64')}` !== integrity) {
      throw new Error(`${name} ${version} has another checksum than in package-lock.json`);
    }
    renameSync(packed, cached);
  });
  return cached;
}

function digest(file: string, algorithm: string, encoding: 'hex' | 'base64'): string {
  return createHash(algorithm).update(readFileSync(file)).digest(encoding);
}

function withTemporary(folder: string, work: (temporary: string) => void): void {
  const temporary = mkdtempSync(path.join(folder, 'get-'));
  try {
    work(temporary);
  } finally {
    rmSync(temporary, { recursive: true });
  }
}
