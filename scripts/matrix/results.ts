/**
 * Reads and writes the results of `npm run test:matrix`. `keyferry version` prints those in
 * scripts/matrix/results.json, and docs/versions.md shows them as a table.
 */
import type { TestedVersions } from '../../src/config/version.ts';

/** The result of a run in which every test passed. */
export interface MatrixResult extends TestedVersions {
  /** The run's name in `RUNS` of scripts/matrix.ts. A new result of the same run replaces this one. */
  readonly run: string;
  /** The Git commit of the tested program, with `-dirty` if tracked files differed from it. */
  readonly commit: string;
  readonly passed: number;
  /** How many of the passed tests failed at first, and passed when their file ran again without the other files. */
  readonly repeated: number;
  readonly skipped: number;
}

/** The numbers of tests in the last line that scripts/test.ts prints. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** The file of each failed test, if the output names it. */
  readonly failedIn: readonly string[];
}

/**
 * Reads the numbers of tests from the end of the output.
 * @param output the output of scripts/test.ts
 * @returns `undefined` if the output does not end with these numbers
 */
export function countsIn(output: string): Counts | undefined {
  const counts = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$/.exec(output);
  if (counts === null) return undefined;
  const [passed = 0, failed = 0, skipped = 0] = counts.slice(1).map((count) => Number(count ?? 0));
  const failedIn = [...output.matchAll(/^test at (\S+\.test\.ts):\d+:\d+$/gm)].map(([, file = '']) => file);
  return { passed, failed, skipped, failedIn };
}

const [BEGIN, END] = ['<!-- npm run test:matrix writes this table -->\n', '<!-- end of the table -->\n'];

/**
 * Adds a result, or replaces that of the same run. Results are in the order of `runs`; those of other runs are dropped.
 */
export function withResult(
  results: readonly MatrixResult[],
  added: MatrixResult,
  runs: readonly string[],
): readonly MatrixResult[] {
  const all = [...results.filter(({ run }) => run !== added.run), added];
  return runs.flatMap((run) => all.filter((result) => result.run === run));
}

/**
 * Replaces the table in a page by a table of these results.
 * @throws Error if the page lacks the comments before and after the table
 */
export function pageWith(page: string, results: readonly MatrixResult[]): string {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`docs/versions.md has not the lines ${BEGIN}and ${END}`);
  const rows = results.map(
    ({ kubernetes, vault, externalSecrets, date, commit, passed, repeated, skipped }) =>
      `| ${kubernetes} | ${vault} | ${externalSecrets} | ${date} | \`${commit.slice(0, 7)}\` | ${passed} | ${repeated} | ${skipped} |\n`,
  );
  const head = [
    '| Kubernetes | Vault | External Secrets Operator | date | commit | passed | of them when repeated | skipped |',
    '|---|---|---|---|---|---|---|---|',
    '',
  ].join('\n');
  return page.slice(0, from + BEGIN.length) + head + rows.join('') + page.slice(to);
}
