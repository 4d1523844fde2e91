// The V8 flags that Keyferry is measured, tested and run with (docs/architecture.md, Memory).
'use strict';

// The program that starts Keyferry uses its own Node, or Node 24 if its own is older. Newer versions may not have this flag.
const isNode24 = Number(process.versions.node.split('.')[0]) <= 24;

module.exports = [
  // The old generation grows in small steps: what a burst leaves behind is collected before more memory is asked for.
  '--optimize-for-size',
  // A young generation of 2 MiB: streams of short-lived JSON would otherwise hold 9 to 11 MiB more.
  '--max-semi-space-size=2',
  // No optimizing compilers: the work is in native code (TLS, JSON); they cost 12 MiB and bring no speed that can be measured.
  '--no-opt',
  '--no-maglev',
  // Node 24 does not collect the young generation during the marking of the old one. On a busy machine the marking takes long, and the
  // young generation grew to 18 MiB.
  ...(isNode24 ? ['--no-separate-gc-phases'] : []),
];
