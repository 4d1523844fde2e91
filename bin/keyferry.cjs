#!/usr/bin/env node
// Starts the bundle with the Node and the V8 flags that it is measured with.
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

/** Node 24 or newer: the one that runs this if it is, else the one that npm installed beside it. */
function findNode() {
  if (Number(process.versions.node.split('.')[0]) >= 24) return process.execPath;
  const bundled = `node-${process.platform}-${process.arch}`;
  try {
    // In a checkout it is in node_modules of Keyferry, and in an installed package beside it.
    return path.join(path.dirname(require.resolve(`${bundled}/package.json`)), 'bin', 'node');
  } catch {
    // It was not installed.
  }
  process.stderr.write(`keyferry: needs Node 24 or newer, this is ${process.version}\n`);
  process.exit(1);
}

// All threads of Node share one arena of glibc: with more, a burst of work takes 1.3 MiB more.
process.env.MALLOC_ARENA_MAX ??= '1';
const args = [...nodeFlags, bundle, ...process.argv.slice(2)];
const node = findNode();
// A link that is called like the program of an original (/manager) is known by its name to what is started here.
const link = path.basename(process.argv[1]);
const name = /^(kubectl-)?keyferry/.test(link) ? process.argv0 : link;
if (typeof process.execve === 'function' && process.platform !== 'win32') {
  process.execve(node, [name, ...args], process.env);
} else {
  const child = spawn(node, args, { argv0: name, stdio: 'inherit' });
  for (const signal of ['SIGTERM', 'SIGHUP', 'SIGUSR2']) process.on(signal, () => child.kill(signal));
  // A terminal sends Ctrl-C to the child as well; a second one would cut its orderly stop short.
  const terminal = process.stdin.isTTY || process.stdout.isTTY || process.stderr.isTTY;
  process.on('SIGINT', () => terminal || child.kill('SIGINT'));
  child.on('exit', (code, signal) => process.exit(signal ? 128 + require('node:os').constants.signals[signal] : code));
}
