/**
 * Downloads packages from Debian's archive with the programs of apt. Each run uses its own package lists, because the
 * lists of this machine belong to root, and may be for another architecture or release.
 */
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import pinned from './debian-packages.json' with { type: 'json' };
import { execute } from './execute.ts';
import type { Architecture } from './inputs.ts';

/** Version and checksum of a package for one architecture. */
export interface DebianPin {
  readonly version: string;
  readonly sha256: string;
}

const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg';

/** The packages of Debian's archive for one architecture. Files of apt are in `folder`, which must be empty. */
export class DebianArchive {
  readonly #folder: string;
  readonly #options: readonly string[];

  /** Downloads the package lists. @throws Error if apt or the keyring is not installed, or the network fails */
  constructor(architecture: Architecture, folder: string) {
    if (!existsSync(KEYRING)) throw new Error(`${KEYRING} is missing: install debian-archive-keyring`);
    this.#folder = folder;
    const sources = path.join(folder, 'sources.list');
    mkdirSync(path.join(folder, 'lists/partial'), { recursive: true });
    writeFileSync(
      sources,
      [`debian ${pinned.release}`, `debian-security ${pinned.release}-security`]
        .map((suite) => `deb [signed-by=${KEYRING}] http://deb.debian.org/${suite} main\n`)
        .join(''),
    );
    const options = {
      'APT::Architecture': architecture,
      'APT::Architectures': architecture,
      'APT::Sandbox::User': 'root',
      'Dir::Etc::sourcelist': sources,
      'Dir::Etc::sourceparts': '/dev/null',
      'Dir::State::lists': path.join(folder, 'lists'),
      'Dir::State::status': '/dev/null',
      'Dir::Cache': folder,
    };
    this.#options = Object.entries(options).flatMap(([key, value]) => ['-o', `${key}=${value}`]);
    execute('apt-get', ['-qq', ...this.#options, 'update'], folder);
  }

  /** Downloads the packages into the folder. @throws Error if the archive no longer has one of the pinned versions */
  download(packages: readonly (readonly [name: string, pin: DebianPin])[]): void {
    const wanted = packages.map(([name, { version }]) => `${name}=${version}`);
    try {
      execute('apt-get', ['-qq', ...this.#options, 'download', ...wanted], this.#folder);
    } catch (error) {
      const hint = 'Debian replaces packages with updates: `npm run image -- --update-pins` pins the current ones';
      throw new Error(`${(error as Error).message}\n${hint}`, { cause: error });
    }
  }

  /** Version and checksum of a package's newest version in the archive. */
  newest(name: string): DebianPin {
    const fields = execute('apt-cache', [...this.#options, 'show', '--no-all-versions', name], this.#folder);
    const field = (key: string): string => {
      const value = new RegExp(`^${key}: (\\S+)$`, 'm').exec(fields)?.[1];
      if (value === undefined) throw new Error(`Debian's archive has no ${key} of ${name}`);
      return value;
    };
    return { version: field('Version'), sha256: field('SHA256') };
  }
}
