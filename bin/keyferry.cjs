#!/usr/bin/env node
// Starts the bundle with the Node version and the V8 flags with which the memory and speed of Keyferry are measured.
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
 * The path of Node 24 or newer: of the Node that runs this file if it is new enough, else of the npm package
 * node-PLATFORM-ARCH.
 */
function findNode() {
  if (Number(process.versions.node.split('.')[0]) >= 24) return process.execPath;
  const bundled = `node-${process.platform}-${process.arch}`;
  try {
    // In a checkout, this npm package is in node_modules of Keyferry; if Keyferry is installed with npm, both are in
    // the same node_modules.
    return path.join(path.dirname(require.resolve(`${bundled}/package.json`)), 'bin', 'node');
  } catch {
    // The package is not installed.
  }
  process.stderr.write(`keyferry: needs Node 24 or newer, this is ${process.version}\n`);
  process.exit(1);
}

// All threads of Node share one memory arena of glibc. With more arenas, a burst of work takes 1.3 MiB more memory.
process.env.MALLOC_ARENA_MAX ??= '1';
// `keyferry demo` runs the demo, which only a checkout has.
const demo = path.join(root, 'demo', 'main.ts');
const isDemo = process.argv[2] === 'demo' && existsSync(demo);
const args = isDemo ? [demo, ...process.argv.slice(3)] : [...nodeFlags, bundle, ...process.argv.slice(2)];
const node = findNode();
// If a link with the name of an original program (/manager) started this file, the bundle gets this name, and behaves
// like that program.
const link = path.basename(process.argv[1]);
const name = /^(kubectl-)?keyferry/.test(link) ? process.argv0 : link;
if (typeof process.execve === 'function' && process.platform !== 'win32') {
  process.execve(node, [name, ...args], process.env);
} else {
  const child = spawn(node, args, { argv0: name, stdio: 'inherit' });
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGUSR2']) process.on(signal, () => child.kill(signal));
  // On Ctrl-C, a terminal sends SIGINT to the child, too. A second SIGINT would end the child before its orderly stop
  // is complete.
  const terminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
  process.on('SIGINT', () => terminal || child.kill('SIGINT'));
  child.on('exit', (code, signal) => process.exit(signal ? 128 + require('node:os').constants.signals[signal] : code));
}
