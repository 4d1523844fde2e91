/**
 * `npm run test:matrix [-- RUN…]`: runs the scenario tests several times, so that each supported version of Kubernetes
 * and Vault is used in one run. The run on the newest versions has all tests, also those that `npm test` leaves out. If
 * all tests of a run pass, its result is written to scripts/matrix/results.json and docs/versions.md.
 */
import { spawn } from 'node:child_process';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { isOpenBao, OPENBAO_VERSION, serverRecipe } from '../test/servers/catalogue.ts';
import { sourceCommit } from './commit.ts';
import { type Counts, countsIn, type MatrixResult, pageWith, withResult } from './matrix/results.ts';

const ROOT = path.join(import.meta.dirname, '..');
const RESULTS = path.join(ROOT, 'scripts/matrix/results.json');
const PAGE = path.join(ROOT, 'docs/versions.md');
const CONTROLLERS = ['mirrors', 'replicator', 'reflector', 'mittwald', 'config-syncer', 'syncsecret', 'generator'];
const SHARED = ['annotated', 'mirrors-vault', 'clusters', 'engine', 'kube', 'vault-client', 'migrate', 'pods', 'reach'];
const FOLDERS = [...CONTROLLERS, ...SHARED].map((folder) => `test/scenarios/${folder}/`);
/** The folders of files that only run if an argument names the folder. */
const MORE = globSync('test/**/more/', { cwd: ROOT }).map((folder) => `${folder.replace(/\/$/, '')}/`);
const OF_VERSIONS = [...FOLDERS, ...MORE.filter((folder) => FOLDERS.some((parent) => folder.startsWith(parent)))];
const ALL = ['test/', ...MORE];

/** What each run runs, and its environment variables. test/servers/catalogue.ts explains them. */
const RUNS: Readonly<Record<string, { readonly parts: readonly string[]; readonly env: NodeJS.ProcessEnv }>> = {
  newest: { parts: ALL, env: { KEYFERRY_TEST_KUBERNETES: '', KEYFERRY_TEST_VAULT: '' } },
  'oldest-openbao': {
    parts: OF_VERSIONS,
    env: { KEYFERRY_TEST_KUBERNETES: '1.34', KEYFERRY_TEST_VAULT: 'openbao' },
  },
};

/**
 * Runs the test files whose path contains one of `parts`, and prints their output.
 * @throws Error if the output does not end with the numbers of passed and failed tests
 */
async function runTests(parts: readonly string[], env: NodeJS.ProcessEnv): Promise<Counts> {
  const args = [path.join(ROOT, 'scripts/test.ts'), ...parts];
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    process.stdout.write(text);
    output += text;
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  const counts = countsIn(output);
  if (counts === undefined) throw new Error(`the tests ended with ${code ?? 'a signal'}, without counts`);
  return counts;
}

/**
 * Runs all tests, and writes the result if every test passed. On a busy machine, some tests fail because they are too
 * slow. So the files of failed tests run once more, without the other files, and the second result counts.
 * @returns whether every test passed
 */
async function record(run: string, commit: string): Promise<boolean> {
  // A run ignores these two variables of the caller: the folders that they name have servers of one version only.
  const { parts = [], env: chosen } = RUNS[run] ?? {};
  const env = { ...process.env, ...chosen, KEYFERRY_SERVERS: '', KUBEBUILDER_ASSETS: '' };
  const kubernetes = serverRecipe('kube-apiserver', env).version.slice(1);
  const vault = isOpenBao(env) ? `OpenBao ${OPENBAO_VERSION}` : `Vault ${serverRecipe('vault', env).version.slice(1)}`;
  const externalSecrets = serverRecipe('external-secrets', env).version.slice(1);
  process.stdout.write(`\n== ${run}: Kubernetes ${kubernetes}, ${vault}\n`);
  const { passed, failed, skipped, failedIn } = await runTests(parts, env);
  if (passed === 0 || failedIn.length !== failed) return false;
  if (failed > 0) {
    process.stdout.write('\n== again\n');
    const again = await runTests([...new Set(failedIn)], env);
    if (again.failed > 0 || again.passed < failed) return false;
  }
  const date = new Date().toISOString().slice(0, 10);
  const counts = { passed: passed + failed, repeated: failed, skipped };
  const result = { run, kubernetes, vault, externalSecrets, date, commit, ...counts };
  const before = JSON.parse(readFileSync(RESULTS, 'utf8')) as MatrixResult[];
  const results = withResult(before, result, Object.keys(RUNS));
  writeFileSync(RESULTS, `${JSON.stringify(results, undefined, 2)}\n`);
  writeFileSync(PAGE, pageWith(readFileSync(PAGE, 'utf8'), results));
  return true;
}

async function main(): Promise<number> {
  const wanted = process.argv.slice(2);
  const unknown = wanted.find((run) => !Object.hasOwn(RUNS, run));
  if (unknown !== undefined) throw new Error(`unknown run "${unknown}"; known: ${Object.keys(RUNS).join(', ')}`);
  // The commit is read before the first run. Each run writes its result to tracked files, so afterwards the commit
  // would be `-dirty`.
  const commit = sourceCommit() ?? 'unknown';
  const failed: string[] = [];
  for (const run of wanted.length > 0 ? wanted : Object.keys(RUNS)) if (!(await record(run, commit))) failed.push(run);
  if (failed.length > 0) process.stderr.write(`matrix: not recorded, because tests failed: ${failed.join(', ')}\n`);
  return failed.length === 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`matrix: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
