import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { it } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { ensureBundle } from '../../test/support/bundle.ts';
import { generatedFiles } from './generated-files.ts';

for (const [name, content] of generatedFiles()) {
  it(`the generated file ${name} is what npm run gen writes`, () => {
    assert.equal(readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8'), content, 'run `npm run gen`');
  });
}

it('keyferry crds prints the CustomResourceDefinitions in deploy/crds', async () => {
  const files = [...generatedFiles()].filter(([name]) => name.startsWith('deploy/crds/')).map(([, content]) => content);
  const inFiles = parseAllDocuments(files.join('---\n')).map((document) => document.toJS() as unknown);
  const printed = execFileSync(process.execPath, [await ensureBundle(), 'crds'], { encoding: 'utf8' });
  const inProgram = parseAllDocuments(printed).map((document) => document.toJS() as unknown);
  assert.deepEqual(inProgram, inFiles);
  assert.ok(inProgram.length > 0);
});
