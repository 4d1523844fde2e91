/**
 * The program of each process that `test.ts` starts: imports the test files that the arguments name. Each is in a suite of
 * its own, so its hooks concern its tests alone. At the end, tells `test.ts` the CPU time.
 */
import path from 'node:path';
import { describe } from 'node:test';
import { pathToFileURL } from 'node:url';

import { cpuLine } from '../test/support/process-figures.ts';

const ROOT = path.join(import.meta.dirname, '..');

for (const file of process.argv.slice(2)) {
  void describe(path.relative(ROOT, file), async () => {
    await import(pathToFileURL(file).href);
  });
}

process.on('exit', () => process.stderr.write(cpuLine()));
