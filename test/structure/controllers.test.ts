/** A new controller is a folder, a line in controllers/list.ts, and its flags. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { it } from 'node:test';

import { CONTROLLERS } from '../../src/config/config.ts';
import { CONTROLLER_LIST } from '../../src/controllers/list.ts';
import { readSources } from './imports.ts';

const SOURCES = readSources(path.join(import.meta.dirname, '..', '..'));
const FOLDERS = new Set(SOURCES.flatMap(({ file }) => /^src\/controllers\/([^/]+)\//.exec(file)?.[1] ?? []));
FOLDERS.delete('common');

it('every folder is in the list, and every name of the flags', () => {
  const listed = CONTROLLER_LIST.map(({ name }) => name).toSorted();
  assert.deepEqual(listed, [...FOLDERS].toSorted());
  assert.deepEqual(listed, CONTROLLERS.toSorted());
});

it('neither the engine nor the operator names one', () => {
  const names = new RegExp([...FOLDERS].map((name) => name.replace(/s$/, '')).join('|'), 'i');
  const naming = SOURCES.filter(({ file, text }) => {
    const isGeneral = /^src\/((runtime|kube|vault|copy|observe)\/|cli\/(operator|run|events|vault)\.ts)/.test(file);
    if (!isGeneral || file.endsWith('.test.ts')) return false;
    return names.test(withoutComments(text));
  });
  // A field of log lines.
  assert.deepEqual(
    naming.map(({ file }) => file),
    ['src/observe/log-fields.ts'],
  );
});

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[^]*?\*\//g, '').replaceAll(/(^|\s)\/\/.*$/gm, '');
}
