import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CONTROLLER_COMMANDS, findControllerCommand } from './commands.ts';
import { CONTROLLERS } from './controller-names.ts';
import type { Config } from './config.ts';
import type { ProcessInfo } from './flags/flags.ts';
import { NO_VAULT_ENVIRONMENT } from './vault-environment.ts';
import { quoted } from './usage-error.ts';

/** `Config.mirrors` and `Config.vault` without any flag. */
const MIRRORS = { regexMode: 'full', allowCrossNamespaceAuth: false } as const;
const VAULT = {
  addresses: [],
  timeoutMs: 60_000,
  environment: { ...NO_VAULT_ENVIRONMENT, tokenFile: '/home/a/.vault-token' },
};
type CommandName =
  | 'run'
  | 'mirrors'
  | 'replicator'
  | 'generator'
  | 'syncsecret-manager'
  | 'reflector'
  | 'config-syncer'
  | 'mittwald';

const processInfo: ProcessInfo = { env: { HOME: '/home/a' }, hostname: 'host', uniqueId: 'u1' };

function configure(name: CommandName, argv: readonly string[], env: ProcessInfo['env'] = {}): Config {
  const command = findControllerCommand(name);
  const config = command?.configure(argv, { ...processInfo, env: { ...processInfo.env, ...env } });
  assert.ok(config);
  return config;
}

function at(flag: string, port: number, host = ''): Config['statusAddress'] {
  return { address: { host, port }, flag };
}

/** Each row: arguments, and the part of the Config that they change. */
function table(
  name: CommandName,
  rows: readonly (readonly [argv: readonly string[], expected: Partial<Config>])[],
): void {
  for (const [argv, expected] of rows) {
    const config = configure(name, argv);
    for (const [key, value] of Object.entries(expected)) {
      assert.deepEqual(config[key as keyof Config], value, `${name} ${argv.join(' ')}: ${key}`);
    }
  }
}

function refused(name: CommandName, argv: readonly string[], message: string, env: ProcessInfo['env'] = {}): void {
  assert.throws(() => configure(name, argv, env), { name: 'UsageError', message }, argv.join(' '));
}

describe('every command', () => {
  it('no command has a flag name twice, and each detects a request for help', () => {
    for (const { name, flags, configure: parse } of CONTROLLER_COMMANDS) {
      const names = Object.values(flags).map((flag) => flag.name);
      assert.equal(new Set(names).size, names.length, name);
      assert.ok(['kubeconfig', 'status-address', 'leader-elect', 'log-level'].every((flag) => names.includes(flag)));
      assert.equal(parse(['--help'], processInfo), undefined);
    }
  });

  it('every command reads the common flags', () => {
    for (const name of ['mirrors', 'replicator', 'run'] as const) {
      table(name, [
        [['--kubeconfig', 'k', '--context=c'], { kubeconfig: 'k', context: 'c' }],
        [['--status-address=127.0.0.1:0'], { statusAddress: at('status-address', 0, '127.0.0.1') }],
        [['--status-address=0'], { statusAddress: undefined }],
        [['--log-level', 'warn'], { logLevel: 'warn' }],
        [['--log-format', 'text'], { logFormat: 'text' }],
        [['--kube-max-concurrent-writes=3'], { kube: { maxConcurrentWrites: 3, watchIdleMs: 90_000, namespaces: [] } }],
        [
          ['--namespaces=a,b'],
          {
            kube: { maxConcurrentWrites: 8, watchIdleMs: 90_000, namespaces: ['a', 'b'] },
          },
        ],
        [['--watch-idle-timeout=2m'], { kube: { maxConcurrentWrites: 8, watchIdleMs: 120_000, namespaces: [] } }],
        [
          [],
          {
            kubeconfig: undefined,
            context: undefined,
            logLevel: 'info',
            logFormat: undefined,
            kube: { maxConcurrentWrites: 8, watchIdleMs: 90_000, namespaces: [] },
          },
        ],
      ]);
    }
  });

  it('--deletion-timeout is a flag of the commands whose rules wait for their copies, and its help names only these rules', () => {
    const kinds = { run: 'SecretMirror or SyncSecret', mirrors: 'SecretMirror', 'syncsecret-manager': 'SyncSecret' };
    for (const [name, kind] of Object.entries(kinds)) {
      assert.equal(configure(name as CommandName, ['--deletion-timeout=5s']).deletionTimeoutMs, 5000);
      const help = findControllerCommand(name)?.flags.find((one) => one.name === 'deletion-timeout')?.help;
      assert.match(help ?? '', new RegExp(`for which a deleted ${kind} waits`));
    }
    for (const name of ['replicator', 'generator'] as const) {
      refused(name, ['--deletion-timeout=5s'], 'unknown flag --deletion-timeout');
      assert.equal(configure(name, []).deletionTimeoutMs, 60_000);
    }
  });

  it('the help of the generator and of the commands of SyncSecrets names no rule of another system', () => {
    const words = {
      generator: /SecretMirror|SyncSecret/,
      'syncsecret-ccm': /SecretMirror/,
      replicator: /SecretMirror/,
    };
    for (const [name, other] of Object.entries(words))
      for (const one of findControllerCommand(name)?.flags ?? []) assert.doesNotMatch(one.help, other, one.name);
  });

  it('every command refuses --namespace-selector and its variable, and names --namespaces', () => {
    const variable = 'KEYFERRY_NAMESPACE_SELECTOR';
    for (const name of ['run', 'mirrors', 'replicator', 'generator', 'syncsecret-manager'] as const) {
      for (const argv of [['--namespace-selector=team=a'], ['-namespace-selector', 'a'], ['--namespace-selector=']]) {
        refused(name, argv, 'there is no --namespace-selector any more: name the namespaces with --namespaces');
      }
      const start = () => configure(name, [], { [variable]: 'team=a' });
      assert.throws(start, { name: 'UsageError', message: /^\$KEYFERRY_NAMESPACE_SELECTOR is set, .*--namespaces$/ });
      assert.deepEqual(configure(name, [], { [variable]: '' }).kube.namespaces, []);
    }
  });

  it('every command reads the settings of leader election and rejects durations that do not fit together', () => {
    const config = configure('mirrors', ['-leader-elect', '--leader-elect-lease-duration=20s'], {
      POD_NAME: 'pod-0',
      POD_NAMESPACE: 'ns',
    });
    assert.deepEqual(config.leaderElect, {
      enabled: true,
      namespace: 'ns',
      leaseName: '7e6f5103.kts.studio',
      identity: 'pod-0_u1',
      leaseDurationMs: 20_000,
      renewDeadlineMs: 10_000,
      retryPeriodMs: 2000,
    });
    assert.equal(configure('run', ['--leader-elect-namespace=n']).leaderElect.namespace, 'n');
    assert.equal(configure('run', ['--leader-elect-lease-name=n']).leaderElect.leaseName, 'n');
    assert.equal(configure('run', []).leaderElect.identity, 'host_u1');
    const env = { POD_NAME: 'pod-0', POD_UID: 'p1' };
    assert.equal(configure('run', [], env).leaderElect.identity, 'pod-0_p1_u1', 'the runbooks cut at the first _');
    refused(
      'run',
      ['--leader-elect-lease-duration=10s'],
      '--leader-elect-lease-duration (10000 ms) must be more than --leader-elect-renew-deadline (10000 ms)',
    );
    refused(
      'run',
      ['--leader-elect-retry-period=9s'],
      '--leader-elect-renew-deadline (10000 ms) must be more than 1.2 times --leader-elect-retry-period (9000 ms)',
    );
  });
});

describe('the name and namespace of the Lease', () => {
  const lease = "must be a name of lower case letters, digits, '-' and '.', with a letter or digit at both ends";
  const namespace = "must be a name of lower case letters, digits and '-', with a letter or digit at both ends";

  it('the name and namespace of the Lease are rejected if the API server would reject them', () => {
    for (const name of ['run', 'mirrors', 'replicator'] as const) {
      for (const bad of ['Keyferry', 'a_b', 'a/b', '-a', 'a.', 'a b', 'a'.repeat(254)]) {
        const text = `--leader-elect-lease-name: bad value ${quoted(bad)}: ${lease}`;
        refused(name, [`--leader-elect-lease-name=${bad}`], text);
      }
      for (const bad of ['N', 'a.b', 'a'.repeat(64)]) {
        const text = `--leader-elect-namespace: bad value ${quoted(bad)}: ${namespace}`;
        refused(name, ['--leader-elect-namespace', bad], text);
      }
    }
    refused('run', [], '$POD_NAMESPACE: bad value "a_b": must be a name of lower case letters, digits and \'-\'', {
      POD_NAMESPACE: 'a_b',
    });
  });

  it('the name and namespace of the Lease are accepted if the API server would accept them; the empty text means the default', () => {
    for (const good of ['a', '7e6f5103.kts.studio', 'a'.repeat(253)]) {
      assert.equal(configure('run', [`--leader-elect-lease-name=${good}`]).leaderElect.leaseName, good);
    }
    assert.equal(configure('run', ['--leader-elect-lease-name=']).leaderElect.leaseName, 'keyferry');
    assert.equal(configure('run', ['--leader-elect-namespace=']).leaderElect.namespace, undefined);
  });
});

describe('--status-address with the address flags of an original', () => {
  it('--status-address replaces the default addresses of an original, but no address that the user gives', () => {
    const status = '--status-address=127.0.0.1:9';
    const addresses = (...argv: string[]): readonly (string | undefined)[] => {
      const { statusAddress, metricsAddress, healthAddress } = configure('mirrors', argv);
      return [statusAddress, metricsAddress, healthAddress].map((setting) => setting?.flag);
    };
    const [metrics, health] = ['metrics-bind-address', 'health-probe-bind-address'];
    assert.deepEqual(addresses(), [undefined, metrics, health]);
    assert.deepEqual(addresses(status), ['status-address', undefined, undefined]);
    assert.deepEqual(addresses(`--${metrics}=:1`, status), ['status-address', metrics, undefined]);
    assert.deepEqual(addresses(status, `--${health}=:1`), ['status-address', undefined, health]);
    assert.deepEqual(addresses('--status-address=0'), [undefined, undefined, undefined]);
  });
});

describe('mirrors', () => {
  it('the command mirrors has the default addresses and the flags of the original', () => {
    table('mirrors', [
      [
        [],
        {
          controllers: ['mirrors'],
          controllersNamed: true,
          metricsAddress: at('metrics-bind-address', 8080),
          healthAddress: at('health-probe-bind-address', 8081),
          statusAddress: undefined,
          notes: [],
          mirrors: MIRRORS,
          vault: VAULT,
        },
      ],
      [
        ['--metrics-bind-address=127.0.0.1:8080', '--health-probe-bind-address', '0'],
        { metricsAddress: at('metrics-bind-address', 8080, '127.0.0.1'), healthAddress: undefined },
      ],
      [['-zap-log-level', '5'], { logLevel: 'debug' }],
      [['-zap-log-level', 'ERROR'], { logLevel: 'error' }],
      [['-zap-log-level=error', '--log-level=warn'], { logLevel: 'warn' }],
      [['-zap-devel'], { logLevel: 'debug' }],
      [['-zap-devel=false'], { logLevel: 'info' }],
      [['-zap-encoder=json'], { logFormat: 'json', notes: [] }],
      [['-zap-encoder=console'], { logFormat: 'text', notes: [] }],
      [['-zap-encoder=console', '--log-format=json'], { logFormat: 'json' }],
      [
        ['-zap-stacktrace-level=error'],
        { notes: ['--zap-stacktrace-level has no effect: stacks are logged at --log-level debug'] },
      ],
      [
        ['--mirrors-regex=search', '--allow-cross-namespace-auth', '--vault-timeout=2m'],
        {
          mirrors: { regexMode: 'search', allowCrossNamespaceAuth: true },
          vault: { ...VAULT, timeoutMs: 120_000 },
        },
      ],
      [
        ['--vault-addresses=https://a:8200, *.vault.svc', '--vault-addresses', 'b'],
        { vault: { ...VAULT, addresses: ['https://a:8200', '*.vault.svc', 'b'] } },
      ],
      [['--leader-elect', 'true'], { notes: ['ignored "true" and all arguments after it, as the original does'] }],
    ]);
  });

  it('if ENABLE_WEBHOOKS is set, the command mirrors notes that it has no effect', () => {
    assert.match(configure('mirrors', [], { ENABLE_WEBHOOKS: 'false' }).notes.join(), /^ENABLE_WEBHOOKS has no effect/);
  });

  it('the command mirrors rejects bad values, and flags of other commands', () => {
    refused('mirrors', ['--mirrors-regex=x'], '--mirrors-regex: bad value "x": must be one of full, search');
    refused(
      'mirrors',
      ['--zap-log-level=0'],
      '--zap-log-level: bad value "0": must be debug, info, error or a number above 0',
    );
    refused('mirrors', ['--annotations-prefix=x'], 'unknown flag --annotations-prefix');
  });
});

describe('replicator', () => {
  const initial: Config['replicator'] = {
    annotationsPrefix: 'k8s-replicator',
    allowAll: false,
    ignoreUnknown: false,
    resyncPeriodMs: 1_800_000,
    runReplicators: ['secret', 'configmap'],
    createWithLabels: { 'app.kubernetes.io/managed-by': 'k8s-replicator' },
    sourceGraceMs: 5000,
  };

  it('the command replicator has the default addresses and the flags of the original', () => {
    table('replicator', [
      [[], { controllers: ['replicator'], statusAddress: at('status-address', 9102), replicator: initial }],
      [['-kube-config', 'a'], { kubeconfig: 'a' }],
      [['-kube-config', 'a', '--kubeconfig=b'], { kubeconfig: 'b' }],
      [['--annotations-prefix=a/'], { replicator: { ...initial, annotationsPrefix: 'a' } }],
      [['--annotations-prefix='], { replicator: { ...initial, annotationsPrefix: '' } }],
      [['-annotations-prefix', 'a.example.com'], { replicator: { ...initial, annotationsPrefix: 'a.example.com' } }],
      [['-allow-all', '-ignore-unknown=true'], { replicator: { ...initial, allowAll: true, ignoreUnknown: true } }],
      [
        ['--resync-period=1h30m'],
        {
          replicator: { ...initial, resyncPeriodMs: 5_400_000 },
          notes: ['the resync period has no effect: watches show every change'],
        },
      ],
      [['--resync-period=0'], { replicator: { ...initial, resyncPeriodMs: 0 } }],
      [['--source-grace=0'], { replicator: { ...initial, sourceGraceMs: 0 } }],
      [['--run-replicators', 'ConfigMap, SECRET'], { replicator: initial }],
      [['--run-replicators=configMap'], { replicator: { ...initial, runReplicators: ['configmap'] } }],
      [['--run-replicators=ALL'], { replicator: initial }],
      [['--create-with-labels='], { replicator: { ...initial, createWithLabels: {} } }],
      [['--create-with-labels', 'a=b,c=d'], { replicator: { ...initial, createWithLabels: { a: 'b', c: 'd' } } }],
    ]);
  });

  it('the command replicator rejects bad values', () => {
    const kinds = 'must be all, or a list of secret, configmap';
    refused('replicator', ['--run-replicators=endpoints'], `--run-replicators: bad value "endpoints": ${kinds}`);
    refused('replicator', ['--run-replicators='], `--run-replicators: bad value "": ${kinds}`);
    refused(
      'replicator',
      ['--run-replicators=all,secret'],
      '--run-replicators: bad value "all,secret": all cannot be combined with other kinds',
    );
    refused(
      'replicator',
      ['--create-with-labels=a'],
      '--create-with-labels: bad value "a": must be labels as key=value,key=value',
    );
    refused(
      'replicator',
      ['--annotations-prefix=a/b'],
      '--annotations-prefix: bad value "a/b": must be a DNS name, for example k8s-replicator or replicator.example.com',
    );
  });
});

describe('run', () => {
  it('without --controllers, run starts mirrors, replicator and generator; with it, run starts the listed controllers', () => {
    const list = CONTROLLERS.join(', ');
    table('run', [
      [
        [],
        {
          controllers: ['mirrors', 'replicator', 'generator'],
          controllersNamed: false,
          statusAddress: at('status-address', 8080),
          metricsAddress: undefined,
          healthAddress: undefined,
        },
      ],
      [['--controllers', 'mirrors,replicator'], { controllers: ['replicator', 'mirrors'], controllersNamed: true }],
      [['--controllers=replicator'], { controllers: ['replicator'], controllersNamed: true }],
    ]);
    refused('run', ['--controllers=x'], `--controllers: bad value "x": must be a list of ${list}`);
    refused('run', ['--controllers=mirrors,x'], `--controllers: bad value "mirrors,x": must be a list of ${list}`);
    refused('run', ['--leader-elect', 'false'], 'unexpected argument "false"');
  });

  it('an empty value of a list flag is refused, because it would mean the default: everything', () => {
    for (const flag of ['--controllers', '--vault-addresses']) {
      for (const empty of ['', ' ', ',']) {
        const problem = 'must have at least one item; omit the flag for the default';
        refused('run', [flag, empty], `${flag}: bad value ${JSON.stringify(empty)}: ${problem}`);
      }
    }
  });

  it('run has the flags of all controllers; those of the replicator begin with replicator-', () => {
    const config = configure('run', [
      '--mirrors-regex=search',
      '--allow-cross-namespace-auth',
      '--replicator-allow-all',
      '--source-grace=1m',
      '--replicator-run-replicators=secret',
    ]);
    assert.deepEqual([config.mirrors.regexMode, config.mirrors.allowCrossNamespaceAuth], ['search', true]);
    const { allowAll, runReplicators, sourceGraceMs } = config.replicator;
    assert.deepEqual([allowAll, runReplicators, sourceGraceMs], [true, ['secret'], 60_000]);
    refused('run', ['-allow-all'], 'unknown flag -allow-all; did you mean --replicator-allow-all?');
    refused('run', ['--metrics-bind-address=:1'], 'unknown flag --metrics-bind-address');
    const meant = 'unknown flag --excludednamespaces; did you mean --excluded-namespaces?';
    refused('run', ['--excludednamespaces=kube-.*'], meant);
    refused('run', ['--laeder-elect'], 'unknown flag --laeder-elect; did you mean --leader-elect?');
    refused('run', ['--leader-ellectt'], 'unknown flag --leader-ellectt; did you mean --leader-elect?');
    refused('run', ['--leadr-elct-x'], 'unknown flag --leadr-elct-x');
  });

  it('if no controller uses Vault, run does not read the environment variables of Vault', () => {
    const env = { VAULT_CACERT: '/nowhere' };
    assert.throws(() => configure('run', [], env), /VAULT_CACERT/);
    assert.deepEqual(configure('run', ['--controllers=replicator'], env).mirrors, MIRRORS);
  });
});

describe('mittwald', () => {
  it('has the flags of the original, with one dash or two', () => {
    const plain = configure('mittwald', []);
    assert.deepEqual([plain.controllers, plain.statusAddress], [['mittwald'], at('status-address', 9102)]);
    const { mittwald, statusAddress, logLevel, logFormat, notes } = configure('mittwald', [
      '-allow-all',
      '-exclude-namespaces=kube-, ^my',
      '--replicate-configmaps=false',
      '-status-addr',
      ':1',
      '-log-level=panic',
      '-log-format=plain',
      '-resync-period=1h',
      '-sync-by-content',
      '-replicate-roles=false',
    ]);
    const { allowAll, excludeNamespaces, replicateSecrets, replicateConfigMaps } = mittwald;
    assert.deepEqual([allowAll, excludeNamespaces], [true, ['kube-', '^my']]);
    assert.deepEqual([replicateSecrets, replicateConfigMaps, logLevel], [true, false, 'error']);
    assert.equal(statusAddress?.address.port, 1);
    assert.deepEqual([logFormat, notes.length], ['text', 1]);
    assert.deepEqual(configure('mittwald', ['-exclude-namespaces=']).mittwald.excludeNamespaces, []);
    assert.throws(() => configure('mittwald', ['-exclude-namespaces=(']), /not a pattern/);
    assert.throws(() => configure('mittwald', ['-log-level=loud']), /must be trace/);
  });
});

describe('reflector', () => {
  it('reads the environment of the original, with or without ES_ and in any case, and flags have precedence', () => {
    const plain = configure('reflector', []);
    assert.deepEqual([plain.controllers, plain.statusAddress], [['reflector'], at('status-address', 8080)]);
    const env = {
      ES_REFLECTOR__WATCHER__EXCLUDEDNAMESPACES: 'prod-*, ns-?',
      Reflector__Watcher__Timeout: '3600',
      ES_Ignite__KubernetesClient__SkipTlsVerify: 'true',
      ES_Serilog__MinimumLevel__Default: 'Warning',
      ASPNETCORE_HTTP_PORTS: '9090;9091',
    };
    const config = configure('reflector', [], env);
    assert.deepEqual(config.reflector.excludedNamespaces, ['prod-*', 'ns-?']);
    assert.deepEqual([config.logLevel, config.statusAddress], ['warn', at('status-address', 9090)]);
    assert.deepEqual(
      config.notes.map((note) => note.split(' ')[0]),
      ['Reflector__Watcher__Timeout', 'Ignite__KubernetesClient__SkipTlsVerify'],
    );
    const argv = ['--reflector-excluded-namespaces=x', '--log-level=debug', '--status-address=:1'];
    const flags = configure('reflector', argv, env);
    assert.deepEqual(flags.reflector.excludedNamespaces, ['x']);
    assert.deepEqual([flags.logLevel, flags.statusAddress], ['debug', at('status-address', 1)]);
    for (const bad of [
      { ASPNETCORE_HTTP_PORTS: 'http' },
      { ASPNETCORE_HTTP_PORTS: '99999' },
      { Serilog__MinimumLevel__Default: 'x' },
    ])
      assert.throws(() => configure('reflector', [], bad), /bad value/);
  });
});

describe('config-syncer', () => {
  const FILES = ['--tls-cert-file=/c/tls.crt', '--tls-private-key-file=/c/tls.key'];

  it('reads the flags of the original, after run or without it, with - or _, and notes once what has no effect', () => {
    const argv = [
      'run',
      '--cluster_name=unicorn',
      '--config-source-namespace',
      'configs',
      '--v=3',
      '--audit_log_path=-',
    ];
    const config = configure('config-syncer', [
      ...argv,
      '--kubeconfig-file=/k',
      '--qps=1',
      '--profiling',
      '-alsologtostderr',
      ...FILES,
    ]);
    assert.deepEqual(config.configSyncer, {
      clusterName: 'unicorn',
      sourceNamespace: 'configs',
      kubeconfigFile: '/k',
    });
    assert.deepEqual([config.controllers, config.logLevel, config.notes.length], [['config-syncer'], 'info', 1]);
    assert.deepEqual(config.secureAddress, {
      address: { host: '', port: 8443 },
      flag: 'secure-port',
      certificateFile: '/c/tls.crt',
      keyFile: '/c/tls.key',
    });
    const own = ['--secure_port=1', '--bind-address=10.0.0.1', '--cert-dir=/d', '-v=4', '--status-address=:2'];
    const other = configure('config-syncer', own);
    assert.deepEqual(other.secureAddress?.address, { host: '10.0.0.1', port: 1 });
    assert.equal(other.secureAddress?.keyFile, '/d/apiserver.key');
    assert.deepEqual([other.logLevel, other.statusAddress], ['debug', at('status-address', 2)]);
    for (const none of [[], [...FILES, '--secure-port=0']])
      assert.equal(configure('config-syncer', none).secureAddress, undefined);
  });

  it('refuses unknown flags, half a certificate, and values that cannot be', () => {
    refused('config-syncer', ['run', '--etcd-servers=x'], 'unknown flag --etcd-servers');
    refused('config-syncer', FILES.slice(0, 1), '--tls-cert-file and --tls-private-key-file belong together');
    for (const bad of ['--cluster-name=a b', '--bind-address=here', '--v=x', '--secure-port=70000'])
      assert.throws(() => configure('config-syncer', [bad]), /bad value/);
  });
});

/** Flags under run, what they set, and the prefix of the annotations. */
const NAMED: Readonly<Record<string, readonly [flags: readonly string[], set: object, prefix: string]>> = {
  mittwald: [
    ['--mittwald-push=false', '--mittwald-allow-all', '--mittwald-regex=original'],
    { limits: { mittwaldPush: false }, mittwald: { allowAll: true, regex: 'original' } },
    'replicator.v1.mittwald.de',
  ],
  reflector: [
    ['--reflector-push=false', '--reflector-excluded-namespaces=a'],
    { limits: { reflectorPush: false }, reflector: { excludedNamespaces: ['a'] } },
    'reflector.v1.k8s.emberstack.com/',
  ],
  'config-syncer': [
    ['--config-syncer-cluster-name=a', '--config-syncer-source-namespace=b'],
    { configSyncer: { kubeconfigFile: undefined, clusterName: 'a', sourceNamespace: 'b' } },
    'kubed.appscode.com',
  ],
};
for (const [name, [flags, set, prefix]] of Object.entries(NAMED)) {
  it(`${name} runs under run only if it is named, with its flags, and not with its prefix for the replicator`, () => {
    const config = configure('run', [`--controllers=${name}`, ...flags]);
    assert.partialDeepStrictEqual(config, { controllers: [name], ...set });
    for (const flag of flags)
      assert.throws(() => configure('run', [flag]), new RegExp(`needs ${name} in --controllers`));
    const own = `--replicator-annotations-prefix=${prefix}`;
    const both = `--controllers=replicator,${name}`;
    assert.throws(() => configure('run', [both, own]), new RegExp(`is the prefix of ${name}`));
    const alone = configure('run', ['--controllers=replicator', own]);
    assert.equal(alone.replicator.annotationsPrefix, prefix.replace(/\/$/, ''));
  });
}
