/**
 * A controller needs a folder and a line in controllers/list.ts. This test finds out if one of them is missing.
 */
import assert from 'node:assert/strict';
import path from 'node:path';
import { it } from 'node:test';

import { CONTROLLER_LIST } from '../../src/controllers/list.ts';
import { readSources } from './imports.ts';

const SOURCES = readSources(path.join(import.meta.dirname, '..', '..'));
const FOLDERS = new Set(SOURCES.flatMap(({ file }) => /^src\/controllers\/([^/]+)\//.exec(file)?.[1] ?? []));
FOLDERS.delete('common');

it('each folder of src/controllers/ is in controllers/list.ts', () => {
  const listed = CONTROLLER_LIST.map(({ name }) => name).toSorted();
  // The controllers of SyncSecret share a folder.
  const folders = new Set(listed.map((name) => name.replace(/^syncsecret-.*/, 'syncsecret')));
  assert.deepEqual([...folders], [...FOLDERS].toSorted());
});

/** Files outside of a controller's folder that may contain its name: the lists, the flags, the help, and the readers. */
const LISTS_AND_FLAGS =
  /^src\/(config\/|controllers\/list\.ts$|cli\/(short-commands|examples)\.ts$|commands\/readers(\/|\.ts$))/;
const EXCEPTIONS = [
  // `generator` is the name of a field in log lines.
  'src/observe/log.ts',
  // The file lists annotations of other programs that Keyferry never copies.
  'src/controllers/common/excluded-metadata.ts',
  // Here, a generator is a function of JavaScript.
  'src/kube/http.ts',
];

it('the name of a controller appears only in its folder, in the list, in the flags and in a few listed files', () => {
  const names = new RegExp([...FOLDERS].map((name) => name.replace(/s$/, '')).join('|'), 'i');
  const isOwn = (file: string): boolean => [...FOLDERS].some((name) => file.startsWith(`src/controllers/${name}/`));
  const naming = filesWith(names, (file) => !isOwn(file) && !LISTS_AND_FLAGS.test(file));
  assert.deepEqual(naming, EXCEPTIONS.toSorted());
});

it('in src/copy/, the word Vault appears only in copy/vault/, in keys.ts and in the words of reasons', () => {
  const isShared = (file: string): boolean => file.startsWith('src/copy/') && !file.startsWith('src/copy/vault/');
  assert.deepEqual(filesWith(/vault/i, isShared), ['src/copy/model/keys.ts', 'src/copy/model/reasons.ts']);
});

/** The files in src/ that contain the text in their code. Comments and unit tests do not count. */
function filesWith(text: RegExp, isConcerned: (file: string) => boolean): string[] {
  return SOURCES.filter(({ file }) => file.startsWith('src/') && !file.endsWith('.test.ts') && isConcerned(file))
    .filter((source) => text.test(withoutComments(source.text)))
    .map(({ file }) => file)
    .toSorted();
}

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[^]*?\*\//g, '').replaceAll(/(^|\s)\/\/.*$/gm, '');
}
