/** A new controller needs a folder, a line in controllers/list.ts, and its flags. This test keeps that true. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { it } from 'node:test';

import { CONTROLLERS } from '../../src/config/config.ts';
import { CONTROLLER_LIST } from '../../src/controllers/list.ts';
import { readSources } from './imports.ts';

const SOURCES = readSources(path.join(import.meta.dirname, '..', '..'));
const FOLDERS = new Set(SOURCES.flatMap(({ file }) => /^src\/controllers\/([^/]+)\//.exec(file)?.[1] ?? []));
FOLDERS.delete('common');

it('every folder of src/controllers/ is in controllers/list.ts, and each name there is one that --controllers accepts', () => {
  const listed = CONTROLLER_LIST.map(({ name }) => name).toSorted();
  // The controllers of SyncSecret share a folder: it has the first part of their names.
  const folders = new Set(listed.map((name) => name.split('-')[0]));
  assert.deepEqual([...folders], [...FOLDERS].toSorted());
  assert.deepEqual(listed, CONTROLLERS.toSorted());
});

/** Files outside of a controller's folder that may name it: the list, the flags, and the help of the command line. */
const LIST_AND_FLAGS = /^src\/(config\/|controllers\/list\.ts$|cli\/(program|examples)\.ts$)/;
const EXCEPTIONS = [
  // Names a field of log lines.
  'src/observe/log.ts',
  // Names annotations of the originals that are never copied.
  'src/controllers/common/excluded-metadata.ts',
  // "generator" here is that of JavaScript.
  'src/kube/http-stream.ts',
  'src/runtime/queue/slices.ts',
];

it("only a controller's own folder, the list, the flags and a few exceptions name the controller", () => {
  const names = new RegExp([...FOLDERS].map((name) => name.replace(/s$/, '')).join('|'), 'i');
  const isOwn = (file: string): boolean => [...FOLDERS].some((name) => file.startsWith(`src/controllers/${name}/`));
  const naming = filesWith(names, (file) => !isOwn(file) && !LIST_AND_FLAGS.test(file));
  assert.deepEqual(naming, EXCEPTIONS.toSorted());
});

it('in src/copy/ outside of copy/vault/, only keys.ts names Vault', () => {
  const isShared = (file: string): boolean => file.startsWith('src/copy/') && !file.startsWith('src/copy/vault/');
  assert.deepEqual(filesWith(/vault/i, isShared), ['src/copy/model/keys.ts']);
});

/** Files in src/ whose code, without comments and unit tests, has the text. */
function filesWith(text: RegExp, isConcerned: (file: string) => boolean): string[] {
  return SOURCES.filter(({ file }) => file.startsWith('src/') && !file.endsWith('.test.ts') && isConcerned(file))
    .filter((source) => text.test(withoutComments(source.text)))
    .map(({ file }) => file)
    .toSorted();
}

function withoutComments(text: string): string {
  return text.replaceAll(/\/\*[^]*?\*\//g, '').replaceAll(/(^|\s)\/\/.*$/gm, '');
}
