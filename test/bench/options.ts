/** The options of `npm run bench`. */
import { parseArgs } from 'node:util';

import type { SystemName } from './system.ts';

export interface BenchOptions {
  readonly system: SystemName;
  /** How many unrelated Secrets the cluster has. */
  readonly unrelated: number;
  /** The command line of another controller to measure. It contains `{kubeconfig}`. `undefined`: Keyferry. */
  readonly controller?: string | undefined;
  /** The ids of the rows to measure; `undefined`: all rows except those that run only if named. */
  readonly rows?: ReadonlySet<string> | undefined;
  /** Time limit of a row, ms. */
  readonly timeoutMs: number;
  /** How many SyncSecrets there are. */
  readonly syncSecrets: number;
  /** Flags of Node for Keyferry, for example `--cpu-prof`. */
  readonly nodeOptions?: string | undefined;
}

export const USAGE = `Usage: npm run bench -- [options]

Measures a controller that copies 20 sources into 50 namespaces, on a real control plane among unrelated Secrets; with
--system vault 50 entries of a real Vault by 200 SecretMirrors into 20 namespaces each, and 500 Secrets into Vault; with
--system syncsecret SyncSecrets from a tenant's cluster into a management cluster, among unrelated Secrets in both; with
--system page the page of keyferry ui in Chromium, with 20,337 copies.

  --system NAME        mirrors (default), replicator, reflector, mittwald, config-syncer, syncsecret, vault or page
  --scale N            unrelated Secrets in the cluster (default 10000)
  --rows a,b           only these rows; wide, widest, bystander and together are left out where they are not named:
ROWS
  --sync-secrets N     how many SyncSecrets (default 500)
  --controller "CMD"   measures another program on the same work; {kubeconfig} becomes the path of its kubeconfig
  --timeout SECONDS    how long one row may take (default 300)
  --node-options TEXT  NODE_OPTIONS of Keyferry, for profiling
  --help               this text`;

/** @throws RangeError or TypeError if an option is invalid. Its message is for the user */
export function parseOptions(
  args: readonly string[],
  rowsOf: Readonly<Record<SystemName, readonly string[]>>,
): BenchOptions | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      system: { type: 'string', default: 'mirrors' },
      scale: { type: 'string', default: '10000' },
      rows: { type: 'string' },
      'sync-secrets': { type: 'string', default: '500' },
      controller: { type: 'string' },
      timeout: { type: 'string', default: '300' },
      'node-options': { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const { controller, system } = values;
  if (!isSystem(system, rowsOf))
    throw new RangeError(`--system must be ${Object.keys(rowsOf).join(' or ')}, not "${system}"`);
  if (controller !== undefined && !controller.includes('{kubeconfig}'))
    throw new RangeError('--controller needs {kubeconfig} where the path of its kubeconfig is to stand');
  if (controller !== undefined && system === 'syncsecret')
    throw new RangeError('--controller measures one program, and --system syncsecret has two');
  const rows = values.rows?.split(',').map((row) => row.trim());
  const unknown = rows?.find((row) => !rowsOf[system].includes(row));
  if (unknown !== undefined)
    throw new RangeError(`--rows: there is no row "${unknown}"; there are ${rowsOf[system].join(', ')}`);
  return {
    system,
    unrelated: wholeNumber('--scale', values.scale),
    controller,
    rows: rows && new Set(rows),
    timeoutMs: wholeNumber('--timeout', values.timeout) * 1000,
    syncSecrets: wholeNumber('--sync-secrets', values['sync-secrets']),
    nodeOptions: values['node-options'],
  };
}

function isSystem(name: string, rowsOf: Readonly<Record<SystemName, readonly string[]>>): name is SystemName {
  return Object.hasOwn(rowsOf, name);
}

function wholeNumber(flag: string, text: string): number {
  if (!/^\d{1,7}$/u.test(text)) throw new RangeError(`${flag} must be a whole number, not "${text}"`);
  return Number(text);
}
