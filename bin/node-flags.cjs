// The V8 flags with which Keyferry runs, and with which it is tested and measured (docs/architecture.md, Memory).
'use strict';

// Keyferry runs with the Node that starts it, or with Node 24 if that one is older. Versions after 24 may not have the
// flag below.
const isNode24 = Number(process.versions.node.split('.')[0]) <= 24;

module.exports = [
  // The old generation of the heap grows in small steps, so the garbage of a burst is collected before V8 takes more
  // memory.
  '--optimize-for-size',
  // The young generation has at most 2 MiB. Otherwise it would take 9 to 11 MiB more for streams of short-lived JSON
  // objects.
  '--max-semi-space-size=2',
  // No optimizing compilers. They take 12 MiB, and no higher speed can be measured, because native code does the work
  // (TLS, JSON).
  '--no-opt',
  '--no-maglev',
  // Node 24 does not collect the young generation while it marks the old one. On a busy machine, marking takes long,
  // and the young generation grew to 18 MiB.
  ...(isNode24 ? ['--no-separate-gc-phases'] : []),
];
