/** Runs a batch of unit tests in one process: imports the test files that the arguments name. */
import { pathToFileURL } from 'node:url';

for (const file of process.argv.slice(2)) await import(pathToFileURL(file).href);
