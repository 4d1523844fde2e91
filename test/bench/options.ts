/** What `npm run bench` was asked to do. */
import { parseArgs } from 'node:util';

export interface BenchOptions {
  readonly system: 'mirrors' | 'replicator';
  /** Unrelated Secrets in the cluster. */
  readonly unrelated: number;
  /** Command line of another controller, with `{kubeconfig}` in it. */
  readonly controller: string | undefined;
  /** Ids of the rows to measure; `undefined`: all. */
  readonly rows: ReadonlySet<string> | undefined;
  readonly jsonFile: string | undefined;
  /** How long one row may take, ms. */
  readonly timeoutMs: number;
  /** Passed to our own program in place of nothing: `--cpu-prof` and the like, for profiling. */
  readonly nodeOptions: string | undefined;
}

export const USAGE = `Usage: npm run bench -- [options]

Measures a controller that copies 20 sources into 50 namespaces, on a real control plane among unrelated Secrets.

  --system NAME        mirrors (default) or replicator
  --scale N            unrelated Secrets in the cluster (default 10000)
  --quick              the same as --scale 1000
  --rows a,b           only these rows: ROWS
  --controller "CMD"   measures another program on the same work; {kubeconfig} becomes the path of its kubeconfig
  --timeout SECONDS    how long one row may take (default 300)
  --node-options TEXT  NODE_OPTIONS of Keyferry, for profiling
  --json FILE          writes all figures there as well
  --help               this text`;

/** @throws RangeError or TypeError for what makes no sense, in words for the user */
export function parseOptions(args: readonly string[], rowIds: readonly string[]): BenchOptions | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      system: { type: 'string', default: 'mirrors' },
      scale: { type: 'string' },
      quick: { type: 'boolean', default: false },
      rows: { type: 'string' },
      controller: { type: 'string' },
      timeout: { type: 'string', default: '300' },
      'node-options': { type: 'string' },
      json: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const { system } = values;
  if (system !== 'mirrors' && system !== 'replicator') {
    throw new RangeError(`--system must be mirrors or replicator, not "${system}"`);
  }
  if (values.controller !== undefined && !values.controller.includes('{kubeconfig}')) {
    throw new RangeError('--controller needs {kubeconfig} where the path of its kubeconfig is to stand');
  }
  const rows = values.rows?.split(',').map((row) => row.trim());
  const unknown = rows?.find((row) => !rowIds.includes(row));
  if (unknown !== undefined)
    throw new RangeError(`--rows: there is no row "${unknown}"; there are ${rowIds.join(', ')}`);
  return {
    system,
    unrelated: wholeNumber('--scale', values.scale ?? (values.quick ? '1000' : '10000')),
    controller: values.controller,
    rows: rows === undefined ? undefined : new Set(rows),
    jsonFile: values.json,
    timeoutMs: wholeNumber('--timeout', values.timeout) * 1000,
    nodeOptions: values['node-options'],
  };
}

function wholeNumber(flag: string, text: string): number {
  if (!/^\d{1,7}$/u.test(text)) throw new RangeError(`${flag} must be a whole number, not "${text}"`);
  return Number(text);
}
