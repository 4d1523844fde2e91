/** Checks that files, folders, headings, reasons and metrics which the documentation names really exist. */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';

import { type Reason, REASONS } from '../../src/copy/model/reasons.ts';
import { anchors, prose } from '../support/markdown.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');
/** A path on a page may begin in one of these folders. */
const BASES = ['.', 'src'];
const ARCHITECTURE = 'docs/architecture.md';
const SOURCE_FILE = /^[\w./-]+\.ts$/;
const FILE_IN_FOLDER = /^\w[\w.-]*\/[\w./-]+\.(md|yaml|json|cjs)$/;
const FOLDER = /^\w[\w./-]*\/$/;

const read = (page: string): string => readFileSync(path.join(ROOT, page), 'utf8');

/** The paths that a page names: texts in backticks that look like a path of this project. */
function pathsIn(page: string): string[] {
  const spans = [...prose(read(page)).matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span);
  return spans.filter(
    (span) => SOURCE_FILE.test(span) || FILE_IN_FOLDER.test(span) || (page === ARCHITECTURE && FOLDER.test(span)),
  );
}

function linksIn(page: string): string[] {
  const links = [...prose(read(page)).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link);
  return links.filter((link) => !link.startsWith('http'));
}

function isBroken(page: string, link: string): boolean {
  const [file = '', anchor] = link.split('#', 2);
  const target = file === '' ? page : path.join(path.dirname(page), file);
  if (!existsSync(path.join(ROOT, target))) return true;
  return anchor !== undefined && !anchors(read(target)).has(anchor);
}

/** Texts in backticks like `Class.member` on a page, if no source file has this class with this member. */
function missingMembers(page: string): string[] {
  const sources = globSync('src/**/*.ts', { cwd: ROOT }).map(read);
  return [...prose(read(page)).matchAll(/`([A-Z]\w+)\.(\w+)`/g)]
    .filter(([, type, member]) => {
      const declared = new RegExp(`\\b(class|interface|type) ${type}\\b`);
      const used = new RegExp(`\\b${member}\\b`);
      return !sources.some((text) => declared.test(text) && used.test(text));
    })
    .map(([span]) => span);
}

/**
 * Metrics and reasons of conditions that a page names, but no source file contains. (Of `NoConfigMap`, the sources
 * contain only `ConfigMap`, because the code puts the two parts together.)
 */
function missingWords(page: string, sources: string): string[] {
  const spans = [...prose(read(page)).matchAll(/`((?:[A-Z][a-z]+){2,}|keyferry_[a-z_]+)[`{]/g)].map(
    ([, word = '']) => word,
  );
  return spans.filter((word) => !new RegExp(`\\b(${word}|${word.replace(/^No/, '')})\\b`).test(sources));
}

/** Reasons that the table need not list, because they cause no event on an annotated object. */
const NO_EVENTS: ReadonlySet<string> = new Set(
  'SourceInUse NamespaceNotFound SourceEmpty ClusterUnreachable NotInstalled Unauthorized NoData'.split(' '),
);

/** The reasons in the code that handles annotated objects. */
function replicatorReasons(): string[] {
  const files = globSync(
    [
      'src/controllers/replicator/**/*.ts',
      'src/controllers/common/namespaces/left-out.ts',
      'src/controllers/common/annotated/{report,values}.ts',
      'src/controllers/common/rules/rule-{limits,targets}.ts',
      'src/copy/{model,book,plan,cluster}/**/*.ts',
    ],
    { cwd: ROOT },
  );
  const code = files
    .filter((file) => !file.endsWith('.test.ts'))
    .map(read)
    .join('\n');
  const found = [...code.matchAll(/(?:\b(?:because|userCause)\(\s*|\breason: )'(\w+)'/g)].map(
    ([, reason = '']) => reason,
  );
  const passes = (reason: string): boolean => reason in REASONS && REASONS[reason as Reason].who === 'nobody';
  return [...new Set(found)].filter((reason) => !NO_EVENTS.has(reason) && !passes(reason));
}

describe('the documentation', () => {
  it("the table in docs/replicator.md lists exactly the reasons of the replicator's events", () => {
    const [, section = ''] = /^## Events$(.*?)^## /ms.exec(read('docs/replicator.md')) ?? [];
    const listed = [...section.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell = '']) =>
      [...cell.matchAll(/`(\w+)`/g)].map(([, reason = '']) => reason),
    );
    assert.deepEqual(listed.toSorted(), replicatorReasons().toSorted());
  });

  for (const page of globSync(['*.md', 'docs/*.md', 'docs/{runbook,reference}/*.md', 'examples/**/*.md'], {
    cwd: ROOT,
  })) {
    it(`the files and headings that ${page} names exist`, () => {
      const missing = pathsIn(page).filter((name) => !BASES.some((base) => existsSync(path.join(ROOT, base, name))));
      const broken = linksIn(page).filter((link) => isBroken(page, link));
      assert.deepEqual([...missing, ...broken], []);
    });
  }

  it('the files that a page names are found', () => {
    assert.ok(pathsIn('docs/architecture.md').length > 20);
  });

  it('no page runs `npx keyferry` without `--no`, which could download a package of that name', () => {
    const pages = globSync(['*.md', 'docs/**/*.md', 'deploy/**/*.md', 'examples/**/*.md'], { cwd: ROOT });
    assert.deepEqual(
      pages.filter((page) => /npx keyferry/.test(read(page))),
      [],
    );
  });

  it('the reasons and metrics that troubleshooting, scaling, security model and runbook name exist', () => {
    const sources = globSync(['src/**/*.ts', 'deploy/helm/keyferry/**/*.yaml'], { cwd: ROOT }).map(read).join('\n');
    const pages = globSync(['docs/{troubleshooting,scaling,security-model}.md', 'docs/runbook/*.md'], { cwd: ROOT });
    assert.deepEqual(
      pages.flatMap((page) => missingWords(page, sources)),
      [],
    );
    assert.ok(pages.length > 10);
  });

  it('the methods and fields that docs/architecture.md names exist', () => {
    assert.deepEqual(missingMembers(ARCHITECTURE), []);
  });
});
