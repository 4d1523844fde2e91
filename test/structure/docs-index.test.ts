/** Checks that docs/README.md, the index by reader, leads to every page of the documentation. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';

import { prose } from '../support/markdown.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');
const INDEX = 'docs/README.md';

/** The pages that a page links to. A link to a folder leads to its README, if it has one. */
function linkedPages(page: string): string[] {
  const links = [...prose(readFileSync(path.join(ROOT, page), 'utf8')).matchAll(/\]\(([^)\s#]+)(?:#[^)]*)?\)/g)];
  return links
    .map(([, link = '']) => path.normalize(path.join(path.dirname(page), link)))
    .map((target) => (target.endsWith('.md') ? target : path.join(target, 'README.md')))
    .filter((target) => existsSync(path.join(ROOT, target)));
}

/** All pages that a reader reaches from a page, by any number of links. */
function reachable(from: string): Set<string> {
  const found = new Set([from]);
  for (const page of found) for (const next of linkedPages(page)) found.add(next);
  return found;
}

describe('the index of the documentation', () => {
  it('lists every page of docs/ itself', () => {
    const listed = new Set(linkedPages(INDEX));
    const pages = globSync('docs/*.md', { cwd: ROOT }).filter((page) => page !== INDEX);
    assert.ok(pages.length > 20);
    assert.deepEqual(
      pages.filter((page) => !listed.has(page)),
      [],
    );
  });

  it('leads to every page in the folders of docs/', () => {
    const found = reachable(INDEX);
    assert.deepEqual(
      globSync('docs/**/*.md', { cwd: ROOT }).filter((page) => !found.has(page)),
      [],
    );
  });

  it('is linked from the README', () => {
    assert.ok(linkedPages('README.md').includes(INDEX));
  });
});
