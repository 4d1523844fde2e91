/**
 * `npm run bench` measures a controller that copies Secrets, on a real control plane: its speed, memory and requests.
 * With 10,000 unrelated Secrets it takes one to two minutes; with `--rows wide`, twice as long. Exit codes: 0
 * everything was measured, 1 a measurement failed, 2 usage error.
 */
import { writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

import { ensureBundle } from '../support/bundle.ts';
import { OverdueError } from './copy-tracker.ts';
import { Environment, SYSTEMS } from './environment.ts';
import { parseOptions, USAGE, type BenchOptions } from './options.ts';
import { mustOf } from './recorded.ts';
import type { Figure } from './rows.ts';
import type { SystemName } from './system.ts';
import { table } from './table.ts';

const progress = (line: string): void => void process.stderr.write(`bench: ${line}\n`);

async function measure(options: BenchOptions): Promise<{ figures: Figure[]; complete: boolean }> {
  const figures: Figure[] = [];
  const all: Figure[] = [];
  let complete = true;
  await using environment = await Environment.prepare(options, progress);
  for (const row of environment.system.rows) {
    const wanted = options.rows?.has(row.id) ?? row.onlyIfNamed !== true;
    if (!wanted && row.always !== true) continue;
    progress(`measuring ${row.id}`);
    try {
      const measured = await row.measure(environment, all);
      all.push(...measured);
      if (wanted) figures.push(...measured);
    } catch (error) {
      if (!(error instanceof OverdueError)) throw error;
      progress(`${row.id}: ${error.message}`);
      complete = false;
      if (row.always === true) break;
    }
  }
  return { figures, complete };
}

async function main(runs: readonly BenchOptions[]): Promise<number> {
  if (runs[0]?.controller === undefined) await ensureBundle();
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.versions.node}`;
  const results: object[] = [];
  let replicator: readonly Figure[] = [];
  let allComplete = true;
  for (const options of runs) {
    const { system, unrelated, controller, jsonFile } = options;
    const { figures: measured, complete } = await measure(options);
    allComplete &&= complete;
    const figures = system === 'replicator' ? measured : measured.map((figure) => beside(replicator, figure));
    if (system === 'replicator') replicator = figures;
    process.stdout.write(`\n${system}, ${unrelated} unrelated Secrets, ${machine}\n\n`);
    process.stdout.write(`${table(figures, options)}\n`);
    const must = Object.fromEntries(figures.map((figure) => [figure.id, mustOf(figure, options)]));
    results.push({ system, unrelated, controller, machine, figures, must });
    if (jsonFile !== undefined) {
      writeFileSync(jsonFile, `${JSON.stringify(runs.length === 1 ? results[0] : results, null, 2)}\n`);
    }
  }
  return allComplete ? 0 : 1;
}

/** Adds the replicator's figure. If the bare client did the same work both times, it is adjusted to the present speed. */
function beside(replicator: readonly Figure[], figure: Figure): Figure {
  const same = replicator.find(({ id }) => id === figure.id);
  if (same === undefined) return figure;
  const speed = figure.bare === undefined || same.bare === undefined ? 1 : figure.bare / same.bare;
  return { ...figure, replicator: same.value * speed };
}

function rowsOf(name: SystemName): string[] {
  return SYSTEMS[name]().rows.map(({ id }) => id);
}

const ROW_IDS: Readonly<Record<SystemName, readonly string[]>> = {
  'config-syncer': rowsOf('config-syncer'),
  generator: rowsOf('generator'),
  mirrors: rowsOf('mirrors'),
  mittwald: rowsOf('mittwald'),
  page: rowsOf('page'),
  reflector: rowsOf('reflector'),
  replicator: rowsOf('replicator'),
  syncsecret: rowsOf('syncsecret'),
  vault: rowsOf('vault'),
};

function options(): readonly BenchOptions[] | 'help' | undefined {
  try {
    return parseOptions(process.argv.slice(2), ROW_IDS);
  } catch (error) {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
    return undefined;
  }
}

const asked = options();
if (asked === undefined) process.exitCode = 2;
else if (asked === 'help') {
  const rows = Object.entries(ROW_IDS).map(([name, ids]) => `${' '.repeat(23)}${name}: ${ids.join(', ')}`);
  process.stdout.write(`${USAGE.replace('ROWS', rows.join('\n'))}\n`);
} else process.exitCode = await main(asked);
