/**
 * The programs that Keyferry takes the place of: what their binaries are called, and which flags each of them has. Their
 * containers start them by name (`command: [/manager]`) or with flags alone, and never with a subcommand of ours.
 *
 * Names of the binaries: the Dockerfiles of ktsstudio/mirrors, olli-ai/k8s-replicator and kubermatic/kubelb. The generator was a
 * shell script with environment variables alone.
 */
import type { ControllerName } from './config.ts';
import { daemonOf } from './daemons.ts';
import type { FlagTable } from './flags.ts';
import { originalMirrorsFlags } from './mirrors-flags.ts';
import { kubeConfigFlag, replicatorFlags } from './replicator-flags.ts';
import { otherCcmFlags, otherManagerFlags } from './kubelb-flags.ts';
import {
  ccmFlags,
  managerFlags,
  originalCcmFlags,
  originalKubelbFlags,
  originalManagerFlags,
} from './syncsecret-flags.ts';
import { UsageError } from './usage-error.ts';
import { zapFlags } from './zap-flags.ts';

/** Which system takes the place of a binary. */
const BINARIES: Readonly<Record<string, ControllerName>> = {
  manager: 'mirrors',
  'k8s-replicator': 'replicator',
  ccm: 'syncsecret-ccm',
  kubelb: 'syncsecret-manager',
};

interface Original {
  readonly system: ControllerName;
  /** The names of its own flags. */
  readonly flags: ReadonlySet<string>;
}

/** The system whose original is called like this program; `undefined` if it has a name of its own. */
export function systemOfBinary(name: string): ControllerName | undefined {
  return Object.hasOwn(BINARIES, name) ? BINARIES[name] : undefined;
}

/**
 * The system whose original has these flags, for a command line without a subcommand.
 * @returns `undefined` if the first argument is not a flag of any original
 * @throws UsageError if the flags fit more than one original equally well
 */
export function systemOfFlags(argv: readonly string[]): ControllerName | undefined {
  const names = flagNames(argv);
  const [first] = names;
  const known = originals();
  if (first === undefined || first !== flagName(argv[0] ?? '')) return undefined;
  if (!known.some(({ flags }) => flags.has(first))) return undefined;
  const ranked = known.map(({ system, flags }) => {
    const all = new Set(Object.values(daemonOf(system, []).flags).map(({ name }) => name));
    // A flag that is only ours fits, but says less than one that the original had.
    return { system, rank: [count(names, all), count(names, flags)] as const };
  });
  const best = ranked.reduce((a, b) => (compare(b.rank, a.rank) > 0 ? b : a)).rank;
  const [found, ...others] = ranked.filter(({ rank }) => compare(rank, best) === 0);
  if (found === undefined || others.length === 0) return found?.system;
  const choice = [found, ...others].map(({ system }) => system).join(', ');
  throw new UsageError(`the flags do not say which system is meant: put its name before them, one of ${choice}`);
}

function originals(): readonly Original[] {
  const withKubeconfig = (...tables: readonly FlagTable[]): ReadonlySet<string> =>
    new Set(['kubeconfig', ...tables.flatMap((table) => Object.values(table).map(({ name }) => name))]);
  const mirrors = withKubeconfig(originalMirrorsFlags, zapFlags);
  const replicator = Object.values({ ...kubeConfigFlag, ...replicatorFlags('') }).map(({ name }) => name);
  return [
    { system: 'mirrors', flags: new Set([...mirrors, 'leader-elect']) },
    { system: 'replicator', flags: new Set([...replicator, 'status-address']) },
    {
      system: 'syncsecret-ccm',
      flags: withKubeconfig(originalKubelbFlags(':9445'), originalCcmFlags, otherCcmFlags, zapFlags, ccmFlags('')),
    },
    {
      system: 'syncsecret-manager',
      flags: withKubeconfig(
        originalKubelbFlags(':9443'),
        originalManagerFlags,
        otherManagerFlags,
        zapFlags,
        managerFlags(''),
      ),
    },
  ];
}

/** What looks like a flag, up to `--`. A value that looks like one does no harm: no original knows it. */
function flagNames(argv: readonly string[]): string[] {
  const end = argv.indexOf('--');
  return (end === -1 ? argv : argv.slice(0, end)).map(flagName).filter((name) => name !== undefined);
}

function flagName(argument: string): string | undefined {
  return /^--?([^-=][^=]*)/.exec(argument)?.[1];
}

function count(names: readonly string[], known: ReadonlySet<string>): number {
  return names.filter((name) => known.has(name)).length;
}

function compare(a: readonly [number, number], b: readonly [number, number]): number {
  return a[0] - b[0] || a[1] - b[1];
}
