#!/usr/bin/env node
// Starts the bundle with Node 24 or newer, and with V8 flags that keep the memory small. All measurements use them,
// too.
'use strict';
const { spawn } = require('node:child_process');
const { existsSync } = require('node:fs');
const path = require('node:path');

const nodeFlags = require('./node-flags.cjs');

const root = path.join(__dirname, '..');
const bundle = path.join(root, 'dist', 'keyferry.cjs');
if (!existsSync(bundle)) {
  process.stderr.write('keyferry: dist/keyferry.cjs is missing; run `npm run build`\n');
  process.exit(1);
}

/**
 * The path of Node 24 or newer. This is the Node that runs this file, if it is new enough; otherwise the Node in the
 * npm package node-PLATFORM-ARCH.
 */
function findNode() {
  if (Number(process.versions.node.split('.')[0]) >= 24) return process.execPath;
  const bundled = `node-${process.platform}-${process.arch}`;
  try {
    // The package is in the node_modules of Keyferry (in a checkout), or next to Keyferry (after `npm install`).
    return path.join(path.dirname(require.resolve(`${bundled}/package.json`)), 'bin', 'node');
  } catch {
    // The package is not installed: the error below says so.
  }
  process.stderr.write(`keyferry: needs Node 24 or newer, this is ${process.version}\n`);
  process.exit(1);
}

// All threads of Node share one memory arena of glibc. With several arenas, a burst of work takes 1.3 MiB more memory.
process.env.MALLOC_ARENA_MAX ??= '1';
// `keyferry demo` runs the demo, which only a checkout has.
const demo = path.join(root, 'demo', 'main.ts');
const isDemo = process.argv[2] === 'demo' && existsSync(demo);
// The page makes its whole report anew after each change. With optimized code this takes a third of the CPU time, and with
// 20,000 copies 20 MiB more. The old generation grows in small steps, so the process stays below 200 MiB.
const isPage = process.argv[2] === 'ui' && Number(process.versions.node.split('.')[0]) <= 24;
const flags = isPage ? ['--max-semi-space-size=4', '--heap-growing-percent=15'] : nodeFlags;
const args = isDemo ? [demo, ...process.argv.slice(3)] : [...flags, bundle, ...process.argv.slice(2)];
const node = findNode();
// A link with the name of an original program (/manager) may have started this file. The bundle then gets that name and
// runs the command that replaces the original.
const link = path.basename(process.argv[1]);
const name = /^(kubectl-)?keyferry/.test(link) ? process.argv0 : link;
if (typeof process.execve === 'function' && process.platform !== 'win32') {
  process.execve(node, [name, ...args], process.env);
} else {
  const child = spawn(node, args, { argv0: name, stdio: 'inherit' });
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGUSR2']) process.on(signal, () => child.kill(signal));
  // On Ctrl-C, a terminal sends SIGINT to the child, too. A second SIGINT from here would kill the child before its
  // orderly stop is complete.
  const terminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
  process.on('SIGINT', () => terminal || child.kill('SIGINT'));
  child.on('exit', (code, signal) => process.exit(signal ? 128 + require('node:os').constants.signals[signal] : code));
}
