// Loaded into a process of Keyferry with `--require`, before the bundle: keeps the bundle's compiled code in files. Tests
// start a thousand such processes, and each would compile the same functions. Node's own cache (NODE_COMPILE_CACHE) has
// only what is compiled before the first function runs.
'use strict';
const { hash } = require('node:crypto');
const { mkdirSync, readFileSync, renameSync, writeFileSync } = require('node:fs');
const Module = require('node:module');
const path = require('node:path');
const { constants, Script } = require('node:vm');

const FOLDER = path.join(__dirname, '../../node_modules/.cache/keyferry-code');
/** How many bytes of a file name the source, the Node and the flags of its code. V8 compares only the length of the source. */
const MARK_BYTES = 20;
/** After this time, an operator has run most functions that it needs. */
const WORKED_MS = 3000;
const load = require.extensions['.js'];

/** The code in a file, if it is of this source. */
function read(file, mark) {
  try {
    const content = readFileSync(file);
    return content.subarray(0, MARK_BYTES).equals(mark) ? content.subarray(MARK_BYTES) : undefined;
  } catch {
    // No process with this command has ended yet.
    return undefined;
  }
}

/** Writes the code of all functions that have run. */
function keep(script, file, mark) {
  try {
    mkdirSync(FOLDER, { recursive: true });
    const draft = `${file}.${process.pid}`;
    writeFileSync(draft, Buffer.concat([mark, script.createCachedData()]));
    renameSync(draft, file);
  } catch {
    // The folder may belong to another user, or the disk may be full. The next process then compiles again.
  }
}

const { emitWarning } = process;
/** The bundle's `import()` uses this constant. */
const EXPERIMENT = 'vm.USE_MAIN_CONTEXT_DEFAULT_LOADER is an experimental feature';
process.emitWarning = (warning, ...rest) => {
  if (!String(warning).startsWith(EXPERIMENT)) emitWarning.call(process, warning, ...rest);
};

require.extensions['.cjs'] = (module, filename) => {
  if (filename.endsWith('/dist/keyferry.cjs')) runBundle(module, filename);
  else load(module, filename);
};

function runBundle(module, filename) {
  const source = readFileSync(filename, 'utf8');
  const mark = hash('sha1', [source, process.version, ...process.execArgv].join(' '), 'buffer');
  // Each command has its own file, because it uses other functions.
  const [, , command = '', ...rest] = process.argv;
  const isKnown = /^[a-z-]+$/.test(command) && !rest.includes('--help');
  const file = path.join(FOLDER, isKnown ? command : 'others');
  const cachedData = read(file, mark);
  const importModuleDynamically = constants.USE_MAIN_CONTEXT_DEFAULT_LOADER;
  const script = new Script(Module.wrap(source), { filename, cachedData, importModuleDynamically });
  if (cachedData === undefined) {
    const save = () => read(file, mark) ?? keep(script, file, mark);
    // Most operators are killed at the end of a test. A process that fails may have run few functions.
    setTimeout(save, WORKED_MS).unref();
    process.once('exit', (code) => code === 0 && save());
  }
  const run = script.runInThisContext();
  run.call(module.exports, module.exports, Module.createRequire(filename), module, filename, path.dirname(filename));
}
