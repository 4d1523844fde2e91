// The V8 flags with which Keyferry runs, in production as in tests and measurements (docs/architecture.md, Memory).
'use strict';

// Keyferry runs with the Node that started it, or with Node 24 if that Node is older. Node versions after 24 may not
// know some of the flags below.
const isNode24 = Number(process.versions.node.split('.')[0]) <= 24;

module.exports = [
  // The old generation of the heap grows in small steps. So after a burst of work, V8 collects the garbage before it
  // takes more memory.
  '--optimize-for-size',
  // The young generation has at most 2 MiB. By default it grows by 9 to 11 MiB when many short-lived JSON objects are
  // read.
  '--max-semi-space-size=2',
  // Of the optimizing compilers only Maglev, and by default it would compile after 400 calls. With 8,000 calls it compiles
  // only what much work needs: 0.5 MiB for 1,000 copies. For 20,000 copies it takes 8 MiB and saves 16 % of the CPU time,
  // and patterns match several times faster.
  '--no-opt',
  '--maglev',
  ...(isNode24
    ? [
        '--invocation-count-for-maglev=8000',
        // By default, Node 24 does not collect the young generation while it marks the old one. On a busy machine the
        // marking takes long, and the young generation grew to 18 MiB.
        '--no-separate-gc-phases',
      ]
    : []),
];
