/**
 * Checks the GitHub workflows: whatever they call exists, actions are pinned, and jobs have only the listed
 * permissions.
 */
import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';
import { parseDocument } from 'yaml';

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, string>>;
}
interface Job {
  readonly uses?: string;
  readonly needs?: string | readonly string[];
  readonly permissions?: Readonly<Record<string, string>>;
  readonly steps?: readonly Step[];
}
interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const ROOT = path.join(import.meta.dirname, '..', '..');
const FILES = globSync('.github/workflows/*', { cwd: ROOT }).toSorted();
const { scripts, optionalDependencies } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  scripts: Readonly<Record<string, string>>;
  optionalDependencies: Readonly<Record<string, string>>;
};
const TESTS = globSync('{src,test,scripts}/**/*.test.ts', { cwd: ROOT });
/** The permissions to write that jobs of the workflows may have. */
const MAY_WRITE: Readonly<Record<string, readonly string[]>> = {
  'release.yml image': ['packages', 'attestations', 'id-token'],
  'release.yml chart': ['packages', 'id-token'],
  'release.yml npm': ['id-token'],
  'release.yml page': ['contents'],
};

const read = (file: string): string => readFileSync(path.join(ROOT, file), 'utf8');
const exists = (file: string): boolean => existsSync(path.join(ROOT, file));

for (const file of FILES) {
  describe(file, () => {
    it('there are workflows', () => assert.ok(FILES.length > 0));

    const document = parseDocument(read(file), { uniqueKeys: true });
    const workflow = document.toJS() as Workflow;
    const steps = Object.values(workflow.jobs).flatMap((job) => job.steps ?? []);
    const commands = steps.flatMap(({ run }) => run ?? []);

    it(`the workflow ${path.basename(file)} is valid YAML, and each job that another job needs exists`, () => {
      assert.deepEqual([...document.errors, ...document.warnings], []);
      for (const { needs = [], uses } of Object.values(workflow.jobs)) {
        for (const needed of [needs].flat()) assert.ok(needed in workflow.jobs, needed);
        if (uses !== undefined) assert.ok(exists(uses), uses);
      }
    });

    it(`the workflow ${path.basename(file)} pins each action to a commit, with the version in a comment`, () => {
      const actions = [...read(file).matchAll(/uses: (\S+)(.*)$/gm)].filter(
        ([, action = '']) => !action.startsWith('./'),
      );
      assert.equal(actions.length, steps.filter(({ uses }) => uses !== undefined).length);
      for (const [line, action = '', comment = ''] of actions) {
        assert.match(action, /^[\w.-]+\/[\w.-]+@[0-9a-f]{40}$/, line);
        assert.match(comment, /^ # v\d+\.\d+\.\d+$/, line);
      }
    });

    it(`the scripts, tests and files that the workflow ${path.basename(file)} calls exist`, () => {
      for (const command of commands) {
        for (const [, name = ''] of command.matchAll(/npm run (?:-s )?([\w:-]+)/g)) assert.ok(name in scripts, name);
        for (const [, filter = ''] of command.matchAll(/npm test -- (\S+)/g)) {
          assert.ok(
            TESTS.some((test) => test.includes(filter)),
            filter,
          );
        }
        // Without `dist/`: earlier commands of the workflow make these files.
        for (const [name] of command.matchAll(/(?<![\w./-])(\.ci|deploy|docs|scripts|src|test)\/[\w./-]+/g)) {
          const isFilter = command.includes(`npm test -- ${name}`);
          assert.ok(isFilter || exists(name), name);
        }
      }
      for (const [, name = ''] of read(file).matchAll(/-file: (\S+)/g)) assert.ok(exists(name), name);
    });

    it(`the workflow ${path.basename(file)} uses the Node version in package.json`, () => {
      const versions = steps.flatMap((step) => step.with?.['node-version'] ?? []);
      assert.deepEqual(new Set(versions), new Set(Object.values(optionalDependencies)));
    });

    it(`in the workflow ${path.basename(file)}, each job has exactly the permissions to write that MAY_WRITE lists`, () => {
      assert.ok(Object.values(workflow.permissions).every((right) => right === 'read'));
      for (const [name, { permissions = {} }] of Object.entries(workflow.jobs)) {
        const rights = Object.entries(permissions).filter(([, right]) => right !== 'read');
        assert.deepEqual(
          rights.map(([right]) => right).toSorted(),
          (MAY_WRITE[`${path.basename(file)} ${name}`] ?? []).toSorted(),
          name,
        );
      }
    });

    it(`the workflow ${path.basename(file)} puts no text that strangers can choose, such as a branch name, into a command`, () => {
      assert.deepEqual(
        commands.filter((command) => command.includes('${{')),
        [],
      );
    });
  });
}
