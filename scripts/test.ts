/**
 * `npm test [-- PATH-SUBSTRING…]`: gets the servers, builds the bundle, runs the test files and ends with the one line
 * `N passed, N failed[, N skipped]`. Exit code 0 when all passed and there was at least one.
 *
 * Each file runs in a process of its own, three at a time, and is reported when it has ended. A file that dies counts as
 * failed; so does one that hangs, and it is killed.
 */
import { spawnSync } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Readable } from 'node:stream';
import { run } from 'node:test';
import { spec } from 'node:test/reporters';

import { DEFAULT_SERVERS } from '../test/servers/catalogue.ts';
import { ensureAll, serversFolder } from '../test/servers/ensure.ts';

const ROOT = path.join(import.meta.dirname, '..');
const PATTERNS = ['src/**/*.test.ts', 'test/**/*.test.ts', 'scripts/**/*.test.ts'];
/** Most of a test is waiting for servers: on two cores, two files at a time leave half of them idle. */
const CONCURRENCY = 3;
/** Of one file; the slowest takes three minutes, and several times that on a busy machine. */
const FILE_TIMEOUT_MS = 15 * 60_000;

/** What a reporter takes, as far as it is looked into here. */
interface TestEvent {
  readonly type: string;
  readonly data: {
    readonly name?: string;
    readonly nesting?: number;
    readonly skip?: string | boolean;
    readonly todo?: string | boolean;
    readonly details?: { readonly type?: string; readonly error?: { readonly failureType?: string } };
  };
}

function findFiles(wanted: readonly string[]): string[] {
  return globSync(PATTERNS, { cwd: ROOT })
    .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part.replace(/^\.\//, ''))))
    .toSorted();
}

/** Tests of pure code are run without waiting for the build of servers that they do not use; some of them wait or measure. */
function needsServers(file: string): boolean {
  if (file.startsWith('test/')) return !file.startsWith('test/structure/');
  return /\/test\/(?:servers|support)\/(?!wait-for|yardstick)/.test(readFileSync(path.join(ROOT, file), 'utf8'));
}

async function getServers(): Promise<void> {
  const paths = await ensureAll(DEFAULT_SERVERS, {
    onProgress: (line) => void process.stderr.write(`servers: ${line}\n`),
  });
  process.env['KEYFERRY_SERVERS'] = await serversFolder(paths);
}

function buildBundle(): void {
  const { status } = spawnSync(process.execPath, ['scripts/build.ts'], { cwd: ROOT, stdio: ['ignore', 2, 2] });
  if (status !== 0) throw new Error(`scripts/build.ts ended with ${status}`);
}

/**
 * The events of one file, when it has ended. The time limit is ours: that of `run` ends the tests but not a process that
 * something keeps alive.
 */
async function runFile(file: string): Promise<TestEvent[]> {
  const timeout = AbortSignal.timeout(FILE_TIMEOUT_MS);
  const events: TestEvent[] = [];
  for await (const event of run({ files: [path.join(ROOT, file)], cwd: ROOT, isolation: 'process', signal: timeout })) {
    events.push(event as TestEvent);
  }
  if (timeout.aborted) process.stderr.write(`test: ${file} did not end within ${FILE_TIMEOUT_MS / 1000} s\n`);
  // Every run closes with counts of its own; ours are those of all files.
  return events.filter(
    ({ type, data }) => type !== 'test:summary' && !(type === 'test:diagnostic' && data.nesting === 0),
  );
}

/** The events of all files, file after file in the order in which they end. */
async function* runFiles(files: readonly string[]): AsyncGenerator<TestEvent> {
  const waiting = [...files];
  const running = new Map<string, Promise<{ file: string; events: TestEvent[] }>>();
  for (;;) {
    while (running.size < CONCURRENCY) {
      const file = waiting.shift();
      if (file === undefined) break;
      running.set(
        file,
        runFile(file).then((events) => ({ file, events })),
      );
    }
    if (running.size === 0) return;
    const { file, events } = await Promise.race(running.values());
    running.delete(file);
    yield* events;
  }
}

class Counter {
  passed = 0;
  failed = 0;
  skipped = 0;

  /** A suite is no test, but one whose hook fails is a failure of its own. */
  count({ type, data }: TestEvent): void {
    if (type !== 'test:pass' && type !== 'test:fail') return;
    if (data.details?.type === 'suite' && data.details.error?.failureType !== 'hookFailed') return;
    if (isSet(data.skip) || isSet(data.todo)) this.skipped += 1;
    else if (type === 'test:pass') this.passed += 1;
    else this.failed += 1;
  }

  toString(): string {
    return `${this.passed} passed, ${this.failed} failed${this.skipped > 0 ? `, ${this.skipped} skipped` : ''}`;
  }
}

/** `skip: true`, and `skip: 'because'`; an empty reason counts too. */
function isSet(mark: string | boolean | undefined): boolean {
  return mark !== undefined && mark !== false;
}

async function main(): Promise<number> {
  const wanted = process.argv.slice(2);
  const files = findFiles(wanted);
  if (files.some((file) => needsServers(file))) await getServers();
  if (files.length > 0) buildBundle();
  else process.stderr.write(`test: no test file matches ${wanted.join(' ')}\n`);

  const counter = new Counter();
  const counted = async function* (): AsyncGenerator<TestEvent> {
    for await (const event of runFiles(files)) {
      counter.count(event);
      yield event;
    }
  };
  for await (const text of Readable.from(counted()).compose(new spec())) process.stdout.write(text as string);
  process.stdout.write(`\n${counter.toString()}\n`);
  return counter.failed === 0 && counter.passed > 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  process.stderr.write(`test: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
