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
  // Controllers of one API share a folder, and the first part of their names.
  const folders = new Set(listed.map((name) => name.split('-')[0]));
  assert.deepEqual([...folders], [...FOLDERS].toSorted());
  assert.deepEqual(listed, CONTROLLERS.toSorted());
});

/** The list, the flags, and the help of the command line. */
const LIST_AND_FLAGS = /^src\/(config\/|controllers\/list\.ts$|cli\/(program|examples)\.ts$)/;
const EXCEPTIONS = [
  // A field of log lines.
  'src/observe/log.ts',
  // Annotations of the originals, which are not copied.
  'src/controllers/common/excluded-metadata.ts',
  // The generators of JavaScript.
  'src/kube/http-stream.ts',
  'src/runtime/queue/slices.ts',
];

it('only its folder, the list and the flags name a controller', () => {
  const names = new RegExp([...FOLDERS].map((name) => name.replace(/s$/, '')).join('|'), 'i');
  const isOwn = (file: string): boolean => [...FOLDERS].some((name) => file.startsWith(`src/controllers/${name}/`));
  const naming = filesWith(names, (file) => !isOwn(file) && !LIST_AND_FLAGS.test(file));
  assert.deepEqual(naming, EXCEPTIONS.toSorted());
});

it('of the parts of copy/ that all backends share, only the keys name Vault', () => {
  const isShared = (file: string): boolean => file.startsWith('src/copy/') && !file.startsWith('src/copy/vault/');
  assert.deepEqual(filesWith(/vault/i, isShared), ['src/copy/model/keys.ts']);
});

/** The sources, without comments and unit tests, that contain the text. */
function filesWith(text: RegExp, isConcerned: (file: string) => boolean): string[] {
  return SOURCES.filter(({ file }) => file.startsWith('src/') && !file.endsWith('.test.ts') && isConcerned(file))
    .filter((source) => text.test(withoutComments(source.text)))
    .map(({ file }) => file)
    .toSorted();
}

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[^]*?\*\//g, '').replaceAll(/(^|\s)\/\/.*$/gm, '');
}
