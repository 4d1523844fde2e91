/** Every controller in one process; the flags of the systems have their names before them. */
import { commonFlags } from './common-flags.ts';
import { deepFreeze, type ControllerName } from './config.ts';
import { base, initialValues, refuseRest, type Daemon } from './daemon.ts';
import { parsedFlag, parseFlags, type FlagTable, type FlagValues } from './flags.ts';
import { generatorConfig, generatorFlags } from './generator-flags.ts';
import { mirrorsConfig, mirrorsFlags } from './mirrors-flags.ts';
import { replicatorConfig, replicatorFlags } from './replicator-flags.ts';
import { ccmFlags, managerFlags, syncSecretConfig } from './syncsecret-flags.ts';
import { shown, UsageError } from './usage-error.ts';
import { parseList } from './values.ts';
import { vaultEnvironment } from './vault-environment.ts';

/** `keyferry run`. `available`: the controllers that this build has. */
export function runDaemon(available: readonly ControllerName[]): Daemon {
  const lease = 'keyferry';
  const flags = {
    controllers: parsedFlag(
      'controllers',
      'list',
      '',
      `which of ${available.join(', ')} (else all that can run)`,
      parseList,
    ),
    ...commonFlags(':8080', lease),
    ...mirrorsFlags,
    ...replicatorFlags('replicator-'),
    ...ccmFlags('syncsecret-'),
    ...managerFlags('syncsecret-'),
    ...generatorFlags('generator-'),
  };
  // Flags of a system that this build does not have are not shown and not taken.
  const absent = new Set<string>([
    ...(available.includes('mirrors') ? [] : Object.keys(mirrorsFlags)),
    ...(available.includes('replicator') ? [] : Object.keys(replicatorFlags(''))),
    ...(available.includes('syncsecret-ccm') ? [] : Object.keys(ccmFlags(''))),
    ...(available.includes('syncsecret-manager') ? [] : Object.keys(managerFlags(''))),
    ...(available.includes('generator') ? [] : Object.keys(generatorFlags(''))),
  ]);
  const shownFlags = Object.fromEntries(Object.entries(flags).filter(([key]) => !absent.has(key)));
  return {
    name: 'run',
    flags: shownFlags,
    configure: (argv, surroundings) => {
      const parsed = parseFlags<FlagTable>(shownFlags, argv);
      if (parsed === undefined) return undefined;
      refuseRest(parsed.rest);
      const values = { ...initialValues(flags), ...parsed.values } as FlagValues<typeof flags>;
      const unknown = values.controllers.find((name) => !available.some((known) => known === name));
      if (unknown !== undefined) {
        const text = `--controllers: bad value ${shown(unknown)}: must be a list of ${available.join(', ')}`;
        throw new UsageError(text);
      }
      const named = available.filter((name) => values.controllers.includes(name));
      if (named.includes('syncsecret-ccm') && values.clusterName === undefined) {
        throw new UsageError('--syncsecret-cluster-name is required for the controller syncsecret-ccm');
      }
      const possible = available.filter((name) => name !== 'syncsecret-ccm' || values.clusterName !== undefined);
      const controllers = named.length > 0 ? named : possible;
      return deepFreeze({
        ...base(values, lease, surroundings),
        controllers,
        controllersNamed: named.length > 0,
        mirrors: controllers.includes('mirrors')
          ? mirrorsConfig(values, vaultEnvironment(surroundings.env), new Set<string>(parsed.given))
          : mirrorsConfig(values),
        replicator: replicatorConfig(values),
        syncsecret: syncSecretConfig(values, surroundings),
        generator: controllers.includes('generator')
          ? generatorConfig(values, surroundings)
          : { all: false, vaultAddress: '' },
      });
    },
  };
}
