/**
 * The npm package must install on every system with Node 24, because its commands `status`, `plan` and
 * `explain` also run on macOS and Windows.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';

const ROOT = path.join(import.meta.dirname, '..', '..');

interface Package {
  readonly os?: unknown;
  readonly cpu?: unknown;
  readonly optional?: boolean;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly scripts?: Readonly<Record<string, string>>;
}

const read = (file: string): unknown => JSON.parse(readFileSync(path.join(ROOT, file), 'utf8'));

describe('the npm package on macOS and Windows', () => {
  const manifest = read('package.json') as Package;

  it('package.json does not limit the npm package to certain operating systems or processors', () => {
    assert.equal(manifest.os, undefined);
    assert.equal(manifest.cpu, undefined);
    assert.equal(manifest.dependencies, undefined);
  });

  it('the npm package does not depend on packages that exist for one operating system only', () => {
    const { packages } = read('package-lock.json') as { readonly packages: Readonly<Record<string, Package>> };
    const bound = Object.entries(packages).filter(([, { os, cpu }]) => os !== undefined || cpu !== undefined);
    assert.ok(bound.length > 2, 'the lock file says which packages are bound to a system');
    assert.deepEqual(
      bound.filter(([, { optional }]) => optional !== true).map(([name]) => name),
      [],
    );
  });

  it('the npm package can be built on Windows, because its scripts run Node and need no shell', () => {
    for (const name of ['build', 'dependencies', 'prepack']) {
      assert.match(manifest.scripts?.[name] ?? '', /^(node scripts\/\w+\.ts|npm run build)$/, name);
    }
  });
});
