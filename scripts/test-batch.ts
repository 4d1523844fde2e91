/**
 * Runs a batch of test files in one process: imports those that the arguments name. Each is in a suite of its own, so its
 * hooks concern its tests alone.
 */
import path from 'node:path';
import { describe } from 'node:test';
import { pathToFileURL } from 'node:url';

const ROOT = path.join(import.meta.dirname, '..');

for (const file of process.argv.slice(2)) {
  void describe(path.relative(ROOT, file), async () => {
    await import(pathToFileURL(file).href);
  });
}
