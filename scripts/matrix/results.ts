/** The results of `npm run test:matrix`: scripts/matrix/results.json, which `keyferry version` prints, and the table in docs/versions.md. */
import type { TestedVersions } from '../../src/cli/version.ts';

/** One run without a failed test. */
export interface MatrixResult extends TestedVersions {
  /** Its key in `RUNS` of scripts/matrix.ts. A later run with this key replaces it. */
  readonly run: string;
  /** The Git commit of the tested program. With `-dirty`, files differed from it. */
  readonly commit: string;
  readonly passed: number;
  readonly skipped: number;
}

const [BEGIN, END] = ['<!-- npm run test:matrix writes this table -->\n', '<!-- end of the table -->\n'];

/** The results after a run, in the order of `runs`; those of runs that no longer exist are dropped. */
export function withResult(
  results: readonly MatrixResult[],
  added: MatrixResult,
  runs: readonly string[],
): readonly MatrixResult[] {
  const all = [...results.filter(({ run }) => run !== added.run), added];
  return runs.flatMap((run) => all.filter((result) => result.run === run));
}

/** The page with the table of these results. @throws Error if the page has no place for it */
export function pageWith(page: string, results: readonly MatrixResult[]): string {
  const [from, to] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`docs/versions.md has not the lines ${BEGIN}and ${END}`);
  const rows = results.map(
    ({ kubernetes, vault, externalSecrets, date, commit, passed, skipped }) =>
      `| ${kubernetes} | ${vault} | ${externalSecrets} | ${date} | \`${commit.slice(0, 7)}\` | ${passed} | ${skipped} |\n`,
  );
  const head = [
    '| Kubernetes | Vault | External Secrets Operator | date | commit | passed | skipped |',
    '|---|---|---|---|---|---|---|',
    '',
  ].join('\n');
  return page.slice(0, from + BEGIN.length) + head + rows.join('') + page.slice(to);
}
