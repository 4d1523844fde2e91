import assert from 'node:assert/strict';
import path from 'node:path';
import { describe, it } from 'node:test';

import { circles, importsOf, readSources, violations } from './imports.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');

describe('imports point one way', () => {
  it('all imports between the folders of src/ follow the rules in docs/architecture.md', () => {
    const sources = readSources(ROOT);
    assert.ok(sources.length > 20, `only ${sources.length} sources were found`);
    assert.deepEqual(violations(sources), []);
  });

  // One row for each kind of rule.
  for (const [file, text, why] of [
    ['src/kube/a.ts', `import type { A } from '../vault/b.ts';`, 'kube may not import vault'],
    ['src/kube/a.ts', `import {\n  A,\n  type B,\n} from '../copy/b.ts';`, 'kube may not import copy'],
    ['src/copy/a.ts', `const a = await import('../controllers/mirrors/b.ts');`, 'copy may not import controllers'],
    ['src/vault/a.ts', `export { A } from '../kube/b.ts';`, 'vault may not import kube'],
    ['src/observe/a.ts', `import '../kube/b.ts';`, 'observe may not import kube'],
    [
      'src/controllers/mirrors/a.ts',
      `import { A } from '../../config/b.ts';`,
      'controllers may import config as types only',
    ],
    ['src/kube/a.ts', `import { A } from '../../test/support/api.ts';`, 'src never imports test/'],
    ['src/kube/a.ts', `import { A } from 'zod/v4';`, 'zod may be imported as types only'],
    ['src/copy/model/a.ts', `import { A } from '../../kube/api.ts';`, 'copy/model, copy/book and copy/plan are pure'],
    [
      'src/copy/vault/a.ts',
      `import { KubeStore } from '../cluster/store.ts';`,
      'Vault uses the store of Secrets, and nothing else of a cluster',
    ],
    ['src/controllers/mirrors/a.ts', `import { A } from '../replicator/b.ts';`, 'controllers do not import each other'],
    [
      'src/commands/plan/a.ts',
      `import type { A } from '../../controllers/replicator/b.ts';`,
      'controllers are reached by controllers/list.ts',
    ],
    [
      'src/new/a.ts',
      `import { A } from '../kube/b.ts';`,
      'the folder src/new has no place in the rule (test/structure/imports.ts)',
    ],
  ] as const) {
    it(`the rule for imports refuses ${text.replaceAll('\n', ' ')} in ${file}`, () => {
      const [found, ...more] = violations([{ file, text }]);
      assert.deepEqual(more, []);
      assert.ok(found?.startsWith(`${file} imports `) === true && found.endsWith(`: ${why}`), found);
    });
  }

  it("the rules for imports permit types, the same folder, lower folders, Node's modules, and imports in comments", () => {
    const text = [
      `import type { V1Secret } from '@kubernetes/client-node';`,
      `import { A } from './own.ts';`,
      `import { B } from '../../copy/b.ts';`,
      `import type { C } from '../../config/c.ts';`,
      `import { E } from '../common/e.ts';`,
      `import fs from 'node:fs';`,
      `// import { D } from '../../cli/d.ts';`,
      `/* import { E } from '../../cli/e.ts'; */`,
    ].join('\n');
    assert.deepEqual(violations([{ file: 'src/controllers/mirrors/a.ts', text }]), []);
    assert.equal(importsOf(text).length, 6);
  });
});

describe('circles of imports', () => {
  it('no files of src/ import each other in a circle, types included', () => {
    const sources = readSources(ROOT).filter(({ file }) => !file.endsWith('.test.ts'));
    assert.deepEqual(circles(sources), []);
  });

  it('files in a circle are found, also if only a type closes it, and files that lead to the circle are not named', () => {
    const sources = [
      { file: 'src/a.ts', text: `import { b } from './b/b.ts';` },
      { file: 'src/b/b.ts', text: `import type { C } from '../c.ts';` },
      { file: 'src/c.ts', text: `export { a } from './a.ts';` },
      { file: 'src/d.ts', text: `import { a } from './a.ts';` },
    ];
    assert.deepEqual(circles(sources), [['src/a.ts', 'src/b/b.ts', 'src/c.ts']]);
  });
});

describe('types of keys', () => {
  it('only copy/model/keys.ts casts a text to the type of a key', () => {
    const casts = readSources(ROOT).filter(({ file, text }) => {
      const isCast = /\bas (?:unknown as )?(?:Rule|Object|Entry|Resource|Login)Key\b/.test(text);
      return isCast && file.startsWith('src/') && !file.endsWith('.test.ts') && file !== 'src/copy/model/keys.ts';
    });
    assert.deepEqual(
      casts.map(({ file }) => file),
      [],
    );
  });
});

it('no folder has more than 14 files side by side', () => {
  const files = readSources(ROOT).filter(({ file }) => file.startsWith('src/') && !file.endsWith('.test.ts'));
  const folders = Map.groupBy(files, ({ file }) => path.dirname(file));
  const full = Array.from(folders, ([folder, { length }]) => [folder, length] as const).filter(
    ([, count]) => count > 14,
  );
  assert.deepEqual(full, []);
});
