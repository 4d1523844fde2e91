/**
 * The results of `npm run test:matrix` in scripts/matrix/results.json, which `keyferry version` prints, and in
 * docs/versions.md.
 */
import type { TestedVersions } from '../../src/config/version.ts';

/** One run in which every test passed. */
export interface MatrixResult extends TestedVersions {
  /** Name of the run: its key in `RUNS` of scripts/matrix.ts. A later result of the same run replaces this one. */
  readonly run: string;
  /** The Git commit of the tested program, with `-dirty` if tracked files differed from it. */
  readonly commit: string;
  readonly passed: number;
  /** Number of passed tests that failed at first, and passed when their file ran again without the other files. */
  readonly repeated: number;
  readonly skipped: number;
}

/** The counts in the last line of scripts/test.ts. */
export interface Counts {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  /** The file of each failed test, as far as the output names it. */
  readonly failedIn: readonly string[];
}

/**
 * Reads the counts from the end of the output.
 * @param output of scripts/test.ts
 * @returns `undefined` if it does not end with counts
 */
export function countsIn(output: string): Counts | undefined {
  const counts = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$/.exec(output);
  if (counts === null) return undefined;
  const [passed = 0, failed = 0, skipped = 0] = counts.slice(1).map((count) => Number(count ?? 0));
  const failedIn = [...output.matchAll(/^test at (\S+\.test\.ts):\d+:\d+$/gm)].map(([, file = '']) => file);
  return { passed, failed, skipped, failedIn };
}

const [BEGIN, END] = ['<!-- npm run test:matrix writes this table -->\n', '<!-- end of the table -->\n'];

/** Replaces the result of one run. The results have the order of `runs`; the results of other runs are dropped. */
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
 * @throws Error if the page does not have the marks of the table
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
