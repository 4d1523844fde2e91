/** Where the bundle starts. It runs the command line of the process, and sets the exit code. */
import { runCommandLine } from './command-line.ts';

// Node 24 cuts small buffers from slabs of 64 KiB, and one used buffer keeps its whole slab in memory. While 500
// SyncSecrets were copied, requests and watch lines kept 1.5 MiB more with slabs of that size.
Buffer.poolSize = 8 * 1024;

void runCommandLine(process.argv.slice(2), process, [process.argv[1] ?? '', process.argv0]).then((code) => {
  process.exitCode = code;
  return code;
});
