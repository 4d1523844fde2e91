import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { crds } from '../../src/cli/crds.ts';
import { generatedFiles } from './generated-files.ts';

for (const [name, content] of generatedFiles()) {
  it(`${name} is up to date`, () => {
    assert.equal(readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8'), content, 'run `npm run gen`');
  });
}

it('the program contains the same definitions as the files', () => {
  const files = [...generatedFiles()].filter(([name]) => name.endsWith('.yaml')).map(([, content]) => content);
  const inFiles = parseAllDocuments(files.join('---\n')).map((document) => document.toJS() as unknown);
  const inProgram = parseAllDocuments(crds()).map((document) => document.toJS() as unknown);
  assert.deepEqual(inProgram, inFiles);
  assert.ok(inProgram.length > 0);
});
