/**
 * The commands `status`, `plan`, `explain` and `migrate` run on every system with Node 24, so the package must install
 * there.
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

  it('package.json limits the npm package to no operating system and no processor', () => {
    assert.equal(manifest.os, undefined);
    assert.equal(manifest.cpu, undefined);
    assert.equal(manifest.dependencies, undefined);
  });

  it('the npm package needs no package that exists for one operating system only', () => {
    const { packages } = read('package-lock.json') as { readonly packages: Readonly<Record<string, Package>> };
    const bound = Object.entries(packages).filter(([, { os, cpu }]) => os !== undefined || cpu !== undefined);
    assert.ok(bound.length > 2, 'the lock file says which packages are bound to a system');
    assert.deepEqual(
      bound.filter(([, { optional }]) => optional !== true).map(([name]) => name),
      [],
    );
  });

  it('the npm package can be built on Windows: its scripts run Node, and need no shell', () => {
    for (const name of ['build', 'dependencies', 'prepack']) {
      assert.match(manifest.scripts?.[name] ?? '', /^(node scripts\/\w+\.ts|npm run build)$/, name);
    }
  });
});
