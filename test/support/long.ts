/**
 * What `npm test` without arguments leaves out, because it must take minutes: tests that take long and prove a rarer case
 * of what other tests prove, and most rows of long tables. A run that names files has all their tests, and so has
 * `npm run test:matrix`.
 */
import { describe, it, type SuiteContext, type TestContext } from 'node:test';

/** The environment variable that scripts/test.ts sets in a run of all files. */
export const SHORT_VARIABLE = 'KEYFERRY_TEST_SHORT';
const isShort = process.env[SHORT_VARIABLE] === '1';

/** Declares a test that a short run leaves out. */
export function longIt(name: string, test: (t: TestContext) => void | Promise<void>): void {
  if (!isShort) void it(name, test);
}

/** Declares a suite that a short run leaves out, with its hooks. */
export function longDescribe(name: string, options: { skip?: string | false }, suite: (s: SuiteContext) => void): void {
  if (!isShort) void describe(name, options, suite);
}

/** The rows of a table of tests; in a short run the first ones. */
export function rowsOf<Row>(rows: readonly Row[], few = 1): readonly Row[] {
  return isShort ? rows.slice(0, few) : rows;
}
