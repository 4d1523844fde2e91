/** The environment variables of emberstack/kubernetes-reflector: settings of .NET, with or without the prefix `ES_`. */
import { parseListenAddress } from '../observe/listen-address.ts';
import type { LogLevel } from '../observe/log.ts';
import type { Config } from './config.ts';
import type { ProcessInfo } from './flags/flags.ts';
import { parseList } from './flags/values.ts';
import { quoted, UsageError } from './usage-error.ts';

const EXCLUDED = 'Reflector__Watcher__ExcludedNamespaces';
const TIMEOUT = 'Reflector__Watcher__Timeout';
const SKIP_TLS = 'Ignite__KubernetesClient__SkipTlsVerify';
const LOG_LEVEL = 'Serilog__MinimumLevel__Default';
const PORTS = 'ASPNETCORE_HTTP_PORTS';

/** The levels of Serilog. */
const LEVELS: Readonly<Record<string, LogLevel>> = {
  verbose: 'debug',
  debug: 'debug',
  information: 'info',
  warning: 'warn',
  error: 'error',
  fatal: 'error',
};

/** Adds the settings in the environment. A flag of Keyferry on the command line has precedence. */
export function reflectorConfig(
  { given }: { readonly given: ReadonlySet<string> },
  config: Omit<Config, 'controllers'>,
  env: ProcessInfo['env'],
): Config {
  const notes = [...config.notes];
  const excluded = settingIn(env, EXCLUDED);
  const isExcludedGiven = config.reflector.excludedNamespaces.length > 0;
  const level = settingIn(env, LOG_LEVEL);
  const logLevel = level === undefined || given.has('log-level') ? config.logLevel : LEVELS[level.text.toLowerCase()];
  if (logLevel === undefined) throw badValue(level, 'must be Verbose, Debug, Information, Warning, Error or Fatal');
  if (settingIn(env, TIMEOUT) !== undefined) notes.push(`${TIMEOUT} has no effect: watches continue where they ended`);
  if (settingIn(env, SKIP_TLS)?.text.toLowerCase() === 'true')
    notes.push(
      `${SKIP_TLS} has no effect: Keyferry always verifies the API server; use a kubeconfig with insecure-skip-tls-verify if it must not`,
    );
  return {
    ...config,
    controllers: ['reflector'],
    logLevel,
    reflector: {
      ...config.reflector,
      ...(excluded === undefined || isExcludedGiven ? {} : { excludedNamespaces: parseList(excluded.text) }),
    },
    ...(given.has('status-address') ? {} : statusAddress(env)),
    notes,
  };
}

/** The port of ASP.NET. If there are several, the first one. */
function statusAddress(env: ProcessInfo['env']): Partial<Pick<Config, 'statusAddress'>> {
  const ports = settingIn(env, PORTS);
  if (ports === undefined) return {};
  const [port = ''] = ports.text.split(';');
  if (!/^\d{1,5}$/.test(port.trim()) || Number(port) > 65_535)
    throw badValue(ports, 'must be a port, or ports separated by semicolons');
  return { statusAddress: { address: parseListenAddress(`:${port.trim()}`), flag: 'status-address' } };
}

interface Setting {
  readonly variable: string;
  readonly text: string;
}

/** A setting of .NET: the case of its name has no meaning. Empty values count as absent. */
function settingIn(env: ProcessInfo['env'], name: string): Setting | undefined {
  for (const wanted of [`es_${name}`, name].map((one) => one.toLowerCase())) {
    const variable = Object.keys(env).find((key) => key.toLowerCase() === wanted);
    const text = variable === undefined ? '' : (env[variable]?.trim() ?? '');
    if (variable !== undefined && text !== '') return { variable, text };
  }
  return undefined;
}

function badValue(setting: Setting | undefined, rule: string): UsageError {
  return new UsageError(`$${setting?.variable ?? ''}: bad value ${quoted(setting?.text ?? '')}: ${rule}`);
}
