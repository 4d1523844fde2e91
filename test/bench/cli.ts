/**
 * `npm run bench` measures a controller that copies Secrets, on a real control plane: its speed, memory and requests.
 * With 10,000 unrelated Secrets it takes one to two minutes; with `--rows wide`, twice as long. Exit codes: 0
 * everything was measured, 1 a measurement failed, 2 usage error.
 */
import { cpus } from 'node:os';

import { ensureBundle } from '../support/bundle.ts';
import { mapValues } from '../../src/config/flags/flags.ts';
import { OverdueError } from './copy-tracker.ts';
import { Environment, SYSTEMS } from './environment.ts';
import { parseOptions, USAGE, type BenchOptions } from './options.ts';
import type { Figure } from './rows.ts';
import type { SystemName } from './system.ts';
import { table } from './table.ts';

const progress = (line: string): void => void process.stderr.write(`bench: ${line}\n`);

async function measure(options: BenchOptions): Promise<number> {
  if (options.controller === undefined) await ensureBundle();
  const figures: Figure[] = [];
  const all: Figure[] = [];
  let code = 0;
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
      code = 1;
      if (row.always === true) break;
    }
  }
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'unknown CPU'}, Node ${process.versions.node}`;
  process.stdout.write(`\n${options.system}, ${options.unrelated} unrelated Secrets, ${machine}\n\n`);
  process.stdout.write(`${table(figures, options)}\n`);
  return code;
}

const ROW_IDS = mapValues(SYSTEMS, (make) => make().rows.map(({ id }) => id)) as Record<SystemName, string[]>;

function options(): BenchOptions | 'help' | undefined {
  try {
    return parseOptions(process.argv.slice(2), ROW_IDS);
  } catch (error) {
    progress(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

const asked = options();
if (asked === undefined) process.exitCode = 2;
else if (asked === 'help') {
  const rows = Object.entries(ROW_IDS).map(([name, ids]) => `${' '.repeat(23)}${name}: ${ids.join(', ')}`);
  process.stdout.write(`${USAGE.replace('ROWS', rows.join('\n'))}\n`);
} else process.exitCode = await measure(asked);
