/**
 * `npm run gen`: writes the generated files. With `--check` it only compares them, and fails if a file differs. The pages
 * about flags are made with the generated names of the controllers, so it starts itself again after it wrote these.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { generatedFiles } from './crd/generated-files.ts';

const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

const NAMES = 'src/config/controller-names.ts';

let stale = 0;
let isAgain = false;
for (const [name, content] of generatedFiles()) {
  const file = fileURLToPath(new URL(`../${name}`, import.meta.url));
  if (current(file) === content) continue;
  stale += 1;
  if (values.check) {
    console.error(`${name} is not up to date: run \`npm run gen\``);
  } else {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
    console.log(`wrote ${name}`);
    isAgain ||= name === NAMES;
  }
}
if (values.check && stale > 0) process.exitCode = 1;
if (isAgain) process.exitCode = spawnSync(process.execPath, process.argv.slice(1), { stdio: 'inherit' }).status ?? 1;

function current(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
