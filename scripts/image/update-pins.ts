/** `npm run image -- --update-pins`: pins the newest versions of the image's Debian packages. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { DebianArchive, type DebianPin } from './debian.ts';
import pinned from './debian-packages.json' with { type: 'json' };
import type { Architecture } from './inputs.ts';

const FILE = path.join(import.meta.dirname, 'debian-packages.json');

/** Writes the newest versions into `debian-packages.json`. @returns a line of text for each package that changed */
export function updatePins(): string[] {
  const changes: string[] = [];
  const packages = Object.entries(pinned.packages).map(([architecture, pins]) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'keyferry-pins-'));
    try {
      const archive = new DebianArchive(architecture as Architecture, folder);
      const newest = Object.entries<DebianPin>(pins).map(([name, before]) => {
        const pin = archive.newest(name);
        if (pin.sha256 !== before.sha256) changes.push(`${name} ${architecture}: ${before.version} → ${pin.version}`);
        return [name, pin] as const;
      });
      return [architecture, Object.fromEntries(newest)] as const;
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
  writeFileSync(FILE, `${JSON.stringify({ ...pinned, packages: Object.fromEntries(packages) }, null, 2)}\n`);
  return changes;
}
