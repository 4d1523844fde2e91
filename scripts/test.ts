/**
 * `npm test [-- PATH-SUBSTRING…]`: builds the missing servers and the bundle, runs the test files, and prints
 * `N passed, N failed[, N skipped]` as its last line. The exit code is 0 if no test failed and at least one passed.
 *
 * Files of unit tests share a process, because most need less time than a process needs to start. In a run of many files,
 * a few scenarios of one folder share a process, too, and borrow one control plane after the other. All others have a
 * process each. Results are printed after the end of the process. At least `LEAST_AT_ONCE` processes run at the same time;
 * more start while the processors are idle. A file that crashes counts as failed. So does one that does not end before its
 * process exceeds the time limit and is killed. Without arguments, long tests are left out (test/support/long.ts).
 */
import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { availableParallelism, cpus, totalmem } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

import { Lender } from '../test/servers/lending/lender.ts';
import { SOCKET_VARIABLE } from '../test/servers/lending/protocol.ts';
import { DEFAULT_SERVERS, type ServerName } from '../test/servers/catalogue.ts';
import { ensureAll, serversFolder } from '../test/servers/ensure.ts';
import { missingForPods } from '../test/servers/real-cluster/missing.ts';
import { SHORT_VARIABLE } from '../test/support/long.ts';
import { CPU_LINE, cpuSecondsWithChildren } from '../test/support/process-figures.ts';

const ROOT = path.join(import.meta.dirname, '..');
/**
 * Patterns for the test files. Folders with slow files are first. If a slow file started last, the run would wait for
 * this file alone.
 */
const PATTERNS = [
  'test/faults/**',
  'test/bench/**',
  'test/scenarios/pods/**',
  'test/scenarios/syncsecret/**',
  'test/scenarios/**',
  'test/**',
  'scripts/**',
  'demo/**',
  'src/**',
];
/** Files in folders of this name run only if an argument names the folder. `npm run test:matrix` does. */
const ONLY_NAMED = '/more/';
const LEAST_AT_ONCE = 3;
/** At most this many files of unit tests run in one process. */
const UNITS_IN_BATCH = 24;
/** At most this many scenarios of one folder run in one process, if there are more than `FEW_SCENARIOS` of them. */
const SCENARIOS_IN_BATCH = 4;
const FEW_SCENARIOS = 40;
/** The scenarios that share processes. The others run for minutes, or start programs that look at the whole machine. */
const SHARING =
  /^test\/scenarios\/(annotated|cli|config-syncer|engine|generator|mirrors|mirrors-vault|mittwald|reach|reflector|replicator|syncsecret)\/(more\/)?[^/]+$/;
/** The program of each process: it imports the files that its arguments name. */
const BATCH = path.join(import.meta.dirname, 'test-batch.ts');
/** The failed files of at most this many processes run a second time. If more fail, the cause is not the load. */
const MOST_AGAIN = 6;
/** A process with files that run a second time shares the machine with at most one other process. */
const AGAIN_AT_ONCE = 2;
/** At most this many processes run at the same time. Each process with its servers uses less than 1 GiB of memory. */
const MOST_AT_ONCE = Math.max(LEAST_AT_ONCE, Math.min(6 * availableParallelism(), Math.floor(totalmem() / 2 ** 30)));
/** If the processors were idle for at least this share of `INTERVAL_MS`, another process starts. Most tests only wait. */
const IDLE_SHARE = 0.12;
/**
 * Time over which idle processors are measured, ms. It is long enough to include the start of the servers of the file
 * that started last.
 */
const INTERVAL_MS = 2000;
/** Time limit of one file. The slowest file takes 3 minutes, and several times as long on a busy machine. */
const FILE_TIMEOUT_MS = 15 * 60_000;
/** Each process keeps compiled modules here, so that the next process need not compile them again. */
const COMPILE_CACHE = path.join(ROOT, 'node_modules/.cache/keyferry');

/** The fields of an event of `node:test` that this script uses. */
interface TestEvent {
  readonly type: string;
  readonly data: {
    readonly name?: string;
    readonly message?: string;
    readonly nesting?: number;
    readonly skip?: string | boolean;
    readonly todo?: string | boolean;
    readonly details?: {
      readonly type?: string;
      readonly error?: { readonly failureType?: string; readonly cause?: { readonly message?: string } };
    };
  };
}

/**
 * The test files whose path contains one of `wanted`; all files if it is empty.
 * @throws Error if one of `wanted` matches no file
 */
function findFiles(wanted: readonly string[]): string[] {
  const all = PATTERNS.flatMap((folder) => globSync(`${folder}/*.test.ts`, { cwd: ROOT }).toSorted());
  const files = [...new Set(all)];
  const parts = wanted.length === 0 ? [''] : wanted.map((part) => part.replace(/^\.\//, ''));
  const matches = (file: string, part: string): boolean =>
    file.includes(part) && (!file.includes(ONLY_NAMED) || part.includes('/more'));
  const unmatched = parts.filter((part) => !files.some((file) => matches(file, part)));
  if (unmatched.length > 0) throw new Error(`no test file matches ${unmatched.join(', ')}`);
  return files.filter((file) => parts.some((part) => matches(file, part)));
}

/** Whether a test file starts servers. Tests of pure code do not. */
function needsServers(file: string): boolean {
  if (file.startsWith('test/')) return !file.startsWith('test/structure/');
  return /\/test\/servers\/(?!certificates)/.test(sourceOf(file));
}

function isUnit(file: string): boolean {
  return /^(src|scripts|test\/structure)\//.test(file) && !needsServers(file);
}

function sourceOf(file: string): string {
  return readFileSync(path.join(ROOT, file), 'utf8');
}

/** The files of each process. */
function inProcesses(files: readonly string[]): string[][] {
  const scenarios = files.filter((file) => SHARING.test(file));
  const size = scenarios.length > FEW_SCENARIOS ? SCENARIOS_IN_BATCH : 1;
  const folders = Map.groupBy(scenarios, (file) => path.dirname(file));
  const others = files.filter((file) => !SHARING.test(file) && !isUnit(file));
  const first = ([file = '']: readonly string[]): number => files.indexOf(file);
  return [
    ...[...others.map((file) => [file]), ...[...folders.values()].flatMap((folder) => batches(folder, size))].toSorted(
      (a, b) => first(a) - first(b),
    ),
    ...batches(files.filter(isUnit), UNITS_IN_BATCH),
  ];
}

function batches(files: readonly string[], size: number): string[][] {
  return Array.from({ length: Math.ceil(files.length / size) }, (_, n) => files.slice(n * size, (n + 1) * size));
}

/** Servers that only the test files with these paths start. Building such a server takes minutes. */
const MORE_SERVERS: readonly (readonly [RegExp, readonly ServerName[]])[] = [
  [/\/(generator|demo|chart)\b/, ['external-secrets']],
  [/\/monitoring\//, ['prometheus', 'promtool']],
  [/\/chart\//, ['helm', 'kustomize']],
  [/\/policies\//, ['helm']],
  [/\/replicator\/more\/releases/, ['helm', 'helm-4', 'kubectl']],
  [/\/(migrate|docs)\//, ['helm', 'kubectl', 'kustomize']],
  [/\/kube\/trust/, ['kubectl']],
];
/** The servers for tests with real Pods. Not every machine can run such Pods. */
const PODS: (typeof MORE_SERVERS)[number] = [/\/pods\//, ['kube-scheduler', 'kubelet', 'pause', 'helm', 'kubectl']];

/** How long each process ran, for `slowestText`, and the CPU time of it and of what it started. */
const slowest: { readonly seconds: number; readonly cpuSeconds: number; readonly files: string }[] = [];
const MOST_SLOWEST = 25;

/** The files that used most CPU time: where to look when the suite gets slower. Borrowed servers are only in the sum. */
function slowestText(): string {
  const padded = (seconds: number): string => seconds.toFixed(0).padStart(5);
  const files = slowest.toSorted((a, b) => b.cpuSeconds - a.cpuSeconds).slice(0, MOST_SLOWEST);
  const lines = files.map((one) => `${padded(one.seconds)} s ${padded(one.cpuSeconds)} CPU s  ${one.files}\n`);
  return `${lines.join('')}all files: ${cpuSecondsWithChildren().toFixed(0)} CPU s\n`;
}

async function getServers(files: readonly string[]): Promise<void> {
  const hasPods = files.some((file) => PODS[0].test(file)) && missingForPods() === false;
  const wanted = hasPods ? [...MORE_SERVERS, PODS] : MORE_SERVERS;
  const more = wanted.flatMap(([users, names]) => (files.some((file) => users.test(file)) ? names : []));
  const paths = await ensureAll([...DEFAULT_SERVERS, ...more], {
    onProgress: (line) => void process.stderr.write(`servers: ${line}\n`),
  });
  process.env['KEYFERRY_SERVERS'] = await serversFolder(paths);
}

function buildBundle(): void {
  const { status } = spawnSync(process.execPath, ['scripts/build.ts'], { cwd: ROOT, stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(`scripts/build.ts ended with ${status}`);
}

/** What a process reported about one of its files. */
interface FileResult {
  readonly file: string;
  readonly events: readonly TestEvent[];
  readonly failures: readonly TestEvent[];
}

/**
 * Runs test files in one process. At the time limit, the process is killed: the option `timeout` of `run` would end the
 * tests, but not a process with open handles.
 */
async function runProcess(files: readonly string[]): Promise<FileResult[]> {
  const started = performance.now();
  const timeoutMs = FILE_TIMEOUT_MS * Math.min(files.length, SCENARIOS_IN_BATCH);
  const timeout = AbortSignal.timeout(timeoutMs);
  const events: TestEvent[] = [];
  let cpuSeconds = 0;
  const argv = files.map((file) => path.join(ROOT, file));
  for await (const event of run({ files: [BATCH], argv, cwd: ROOT, signal: timeout })) {
    const { type, data } = event as TestEvent;
    const used = type === 'test:stderr' ? CPU_LINE.exec(data.message ?? '')?.[1] : undefined;
    if (used === undefined) events.push({ type, data });
    else cpuSeconds = Number(used);
  }
  if (timeout.aborted) process.stderr.write(`test: ${files.join(', ')} did not end within ${timeoutMs / 1000} s\n`);
  const more = files.length > 1 ? ` and ${files.length - 1} more` : '';
  slowest.push({ seconds: (performance.now() - started) / 1000, cpuSeconds, files: `${files[0]}${more}` });
  return byFile(files, events);
}

/**
 * The events of each file. The last one is the result of its suite. If the process ended before, what came after the
 * last suite counts for each file that has none, and such a file failed, even if the exit code is 0.
 */
function byFile(files: readonly string[], events: readonly TestEvent[]): FileResult[] {
  const parts = new Map(files.map((file): [string, TestEvent[]] => [file, []]));
  let part: TestEvent[] = [];
  for (const event of events) {
    const { type, data } = event;
    // Left out: the events with the counts of this process, because `Counter` prints the counts of all files.
    if (type === 'test:summary' || (type === 'test:diagnostic' && data.nesting === 0)) continue;
    part.push(event);
    const hasEnded = data.nesting === 0 && (type === 'test:pass' || type === 'test:fail');
    const own = hasEnded ? parts.get(data.name ?? '') : undefined;
    if (own === undefined) continue;
    own.push(...part);
    part = [];
  }
  const unfinished = [...parts].filter(([, own]) => own.length === 0);
  if (unfinished.length === 0) parts.get(files.at(-1) ?? '')?.push(...part);
  for (const [file, own] of unfinished) own.push(...part, ...(part.some(isFailure) ? [] : [didNotEnd(file)]));
  return [...parts].map(([file, own]) => ({ file, events: own, failures: own.filter(isFailure) }));
}

/** The failure of a file whose process ended with exit code 0 before the file did. */
function didNotEnd(file: string): TestEvent {
  // With this code, the reporter prints the cause alone.
  const error = { code: 'ERR_TEST_FAILURE', cause: new Error(`${file} did not end`) };
  return { type: 'test:fail', data: { name: file, nesting: 0, details: { error } } };
}

/**
 * The events of all files, in the order in which their processes end. Events of two files are never mixed. A file with a
 * failed test runs once more at the end, and that run counts: a test may need more time than a busy machine gives.
 */
function runAll(processes: readonly (readonly string[])[]): Readable {
  const waiting = [...processes];
  const again: (readonly string[])[] = [];
  let runsAgain = 0;
  const events = new Readable({ objectMode: true, read: () => undefined });
  let running = 0;
  const runFiles = async (files: readonly string[], isAgain: boolean): Promise<void> => {
    running += 1;
    try {
      const results = await runProcess(files);
      const failed = results.filter(({ failures }) => failures.length > 0);
      const mayRunAgain = failed.length > 0 && !isAgain && processes.length > 1 && runsAgain < MOST_AGAIN;
      if (mayRunAgain) {
        runsAgain += 1;
        again.push(failed.map(({ file }) => file));
        reportAgain(failed);
      }
      for (const result of results) {
        if (!mayRunAgain || !failed.includes(result)) for (const event of result.events) events.push(event);
      }
    } catch (error) {
      events.destroy(error as Error);
    }
    running -= 1;
    startSome();
  };
  const startNext = (): void => {
    const files = waiting.shift();
    const failed = files === undefined && running < AGAIN_AT_ONCE ? again.shift() : undefined;
    if (files !== undefined) void runFiles(files, false);
    else if (failed !== undefined) void runFiles(failed, true);
  };
  const startSome = (): void => {
    for (let n = running; n < LEAST_AT_ONCE; n += 1) startNext();
    if (running === 0) events.push(null);
  };
  startSome();
  let before = processorTimes();
  const timer = setInterval(() => {
    const now = processorTimes();
    const idleShare = (now.idle - before.idle) / (now.total - before.total);
    before = now;
    if (idleShare >= IDLE_SHARE && running < MOST_AT_ONCE) startNext();
  }, INTERVAL_MS);
  events.once('close', () => clearInterval(timer));
  return events;
}

function isFailure({ type, data }: TestEvent): boolean {
  return type === 'test:fail' && !isSet(data.skip) && !isSet(data.todo);
}

/** Says which tests of a process failed beside other files, and why. */
function reportAgain(failed: readonly FileResult[]): void {
  const files = failed.map(({ file }) => file).join(', ');
  const failures = new Set(failed.flatMap((one) => one.failures));
  const tests = Array.from(
    failures,
    ({ data }) => `  ${data.name ?? ''}: ${data.details?.error?.cause?.message ?? ''}\n`,
  );
  process.stderr.write(`test: beside other files, these failed, and run again: ${files}\n${tests.join('')}`);
}

/** The idle time and the total time of all processors since the machine started, added up, ms. */
function processorTimes(): { idle: number; total: number } {
  const times = cpus().map((cpu) => cpu.times);
  const sum = (values: number[]): number => values.reduce((all, value) => all + value, 0);
  return { idle: sum(times.map(({ idle }) => idle)), total: sum(times.flatMap((one) => Object.values(one))) };
}

class Counter {
  passed = 0;
  failed = 0;
  skipped = 0;

  /** Counts a test. A suite is counted only if it failed itself: one of its hooks, or the file of a batch at its import. */
  count({ type, data }: TestEvent): void {
    if (type !== 'test:pass' && type !== 'test:fail') return;
    const hasOwnFailure = type === 'test:fail' && data.details?.error?.failureType !== 'subtestsFailed';
    if (data.details?.type === 'suite' && !hasOwnFailure) return;
    if (isSet(data.skip) || isSet(data.todo)) this.skipped += 1;
    else if (type === 'test:pass') this.passed += 1;
    else this.failed += 1;
  }

  toString(): string {
    return `${this.passed} passed, ${this.failed} failed${this.skipped > 0 ? `, ${this.skipped} skipped` : ''}`;
  }
}

/**
 * Whether a test is skipped or `todo`. The event then has `true` or a text, which may be empty, in `skip` or `todo`.
 */
function isSet(mark: string | boolean | undefined): boolean {
  return mark !== undefined && mark !== false;
}

/** Runs and counts the tests, prints the results, and stops the servers that were lent. */
async function runWithLender(processes: readonly (readonly string[])[], counter: Counter): Promise<void> {
  await using lender = await Lender.open();
  process.env[SOCKET_VARIABLE] = lender.path;
  const counted = async function* (): AsyncGenerator<TestEvent> {
    for await (const event of runAll(processes) as AsyncIterable<TestEvent>) {
      counter.count(event);
      yield event;
    }
  };
  for await (const text of Readable.from(counted()).compose(new spec())) process.stdout.write(text as string);
  if (processes.length > 1) process.stderr.write(`test: lent control planes: ${lender.toString()}\n`);
}

async function main(): Promise<number> {
  const wanted = process.argv.slice(2);
  const files = findFiles(wanted);
  if (wanted.length === 0) process.env[SHORT_VARIABLE] = '1';
  if (files.some((file) => needsServers(file))) await getServers(files);
  // The servers are Go programs. With GOGC=400, an API server collects garbage less often: it uses an eighth less CPU
  // time, and 110 MiB more memory.
  process.env['GOGC'] ??= '400';
  // Above this, they collect it more often, so that an API server can be lent again and again.
  process.env['GOMEMLIMIT'] ??= '700MiB';
  // The servers of several files share the processors. With GOMAXPROCS=1 on two cores, a server needs a tenth less
  // CPU time, because it hands less work from thread to thread.
  process.env['GOMAXPROCS'] ??= String(Math.ceil(availableParallelism() / 2));
  process.env['NODE_COMPILE_CACHE'] ??= COMPILE_CACHE;
  buildBundle();
  const counter = new Counter();
  await runWithLender(inProcesses(files), counter);
  if (files.length > 1) process.stderr.write(`test: ${files.length} files; most CPU time had\n${slowestText()}`);
  process.stdout.write(`\n${counter.toString()}\n`);
  return counter.failed === 0 && counter.passed > 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`test: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
