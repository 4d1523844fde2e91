import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CONTROLLERS, type Config, type Surroundings } from './config.ts';
import { NO_VAULT_ENVIRONMENT } from './vault-environment.ts';
import { DAEMONS, type DaemonName } from './daemon.ts';
import { daemonOf } from './daemons.ts';
import { shown } from './usage-error.ts';

/** The SecretMirror part without any flag. */
const MIRRORS = {
  regexMode: 'full',
  allowCrossNamespaceAuth: false,
  vaultAddresses: [],
  vaultTimeoutMs: 60_000,
  vault: NO_VAULT_ENVIRONMENT,
  workers: 4,
} as const;
const surroundings: Surroundings = { env: { HOME: '/home/a' }, hostname: 'host', uniqueId: 'u1' };

function configure(name: DaemonName, argv: readonly string[], env: Surroundings['env'] = {}): Config {
  const config = daemonOf(name, CONTROLLERS).configure(argv, { ...surroundings, env: { ...surroundings.env, ...env } });
  assert.ok(config);
  return config;
}

function at(flag: string, port: number, host = ''): Config['statusAddress'] {
  return { address: { host, port }, flag };
}

/** Each row: arguments, and the part of the Config that they change. */
function table(
  name: DaemonName,
  rows: readonly (readonly [argv: readonly string[], expected: Partial<Config>])[],
): void {
  for (const [argv, expected] of rows) {
    const config = configure(name, argv);
    for (const [key, value] of Object.entries(expected)) {
      assert.deepEqual(config[key as keyof Config], value, `${name} ${argv.join(' ')}: ${key}`);
    }
  }
}

function refused(name: DaemonName, argv: readonly string[], message: string, env: Surroundings['env'] = {}): void {
  assert.throws(() => configure(name, argv, env), { name: 'UsageError', message }, argv.join(' '));
}

describe('every daemon', () => {
  it('has each flag once, and knows when help is asked for', () => {
    for (const name of DAEMONS) {
      const daemon = daemonOf(name, CONTROLLERS);
      const names = Object.values(daemon.flags).map((flag) => flag.name);
      assert.equal(new Set(names).size, names.length, name);
      assert.ok(['kubeconfig', 'status-address', 'leader-elect', 'log-level'].every((flag) => names.includes(flag)));
      assert.equal(daemon.configure(['--help'], surroundings), undefined);
    }
  });

  it('gives a Config that nobody can change', () => {
    const config = configure('run', ['--status-address', '127.0.0.1:0']);
    const frozen = (value: unknown): boolean =>
      typeof value !== 'object' || value === null || (Object.isFrozen(value) && Object.values(value).every(frozen));
    assert.ok(frozen(config));
  });

  it('reads the common flags', () => {
    for (const name of ['mirrors', 'replicator', 'syncsecret-manager', 'generator', 'run'] as const) {
      table(name, [
        [['--kubeconfig', 'k', '--context=c'], { kubeconfig: 'k', context: 'c' }],
        [['--status-address=127.0.0.1:0'], { statusAddress: at('status-address', 0, '127.0.0.1') }],
        [['--status-address=0'], { statusAddress: undefined }],
        [['--log-level', 'warn'], { logLevel: 'warn' }],
        [['--kube-max-concurrent-writes=3'], { kube: { maxConcurrentWrites: 3, watchIdleMs: 90_000 } }],
        [['--deletion-timeout=5s'], { deletionTimeoutMs: 5000 }],
        [['--watch-idle-timeout=2m'], { kube: { maxConcurrentWrites: 8, watchIdleMs: 120_000 } }],
        [
          [],
          {
            kubeconfig: undefined,
            context: undefined,
            logLevel: 'info',
            deletionTimeoutMs: 60_000,
            kube: { maxConcurrentWrites: 8, watchIdleMs: 90_000 },
          },
        ],
      ]);
    }
  });

  it('reads the leader election, and refuses times that cannot work', () => {
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

describe('the names of the Lease', () => {
  const lease = "must be a name of lower case letters, digits, '-' and '.', with a letter or digit at both ends";
  const namespace = "must be a name of lower case letters, digits and '-', with a letter or digit at both ends";

  it('are refused where the API server would refuse them', () => {
    for (const name of ['run', 'mirrors', 'replicator'] as const) {
      for (const bad of ['Keyferry', 'a_b', 'a/b', '-a', 'a.', 'a b', 'a'.repeat(254)]) {
        const text = `--leader-elect-lease-name: bad value ${shown(bad)}: ${lease}`;
        refused(name, [`--leader-elect-lease-name=${bad}`], text);
      }
      for (const bad of ['N', 'a.b', 'a'.repeat(64)]) {
        const text = `--leader-elect-namespace: bad value ${shown(bad)}: ${namespace}`;
        refused(name, ['--leader-elect-namespace', bad], text);
      }
    }
    refused(
      'syncsecret-ccm',
      ['--cluster-name=a', '--leader-election-namespace=N'],
      `--leader-election-namespace: bad value "N": ${namespace}`,
    );
    refused('run', [], '$POD_NAMESPACE: bad value "a_b": must be a name of lower case letters, digits and \'-\'', {
      POD_NAMESPACE: 'a_b',
    });
  });

  it('are taken where it would take them, and empty ones are left out', () => {
    for (const good of ['a', '7e6f5103.kts.studio', 'a'.repeat(253)]) {
      assert.equal(configure('run', [`--leader-elect-lease-name=${good}`]).leaderElect.leaseName, good);
    }
    assert.equal(configure('run', ['--leader-elect-lease-name=']).leaderElect.leaseName, 'keyferry');
    assert.equal(configure('run', ['--leader-elect-namespace=']).leaderElect.namespace, undefined);
  });
});

describe('--status-address beside the addresses of an original', () => {
  it('replaces those that were not given, and leaves the others', () => {
    const status = '--status-address=127.0.0.1:9';
    for (const [name, metrics, argv] of [
      ['mirrors', 'metrics-bind-address', []],
      ['syncsecret-ccm', 'metrics-addr', ['--cluster-name=a']],
      ['syncsecret-manager', 'metrics-addr', []],
    ] as const) {
      const addresses = (...more: string[]): readonly (string | undefined)[] => {
        const { statusAddress, metricsAddress, healthAddress } = configure(name, [...argv, ...more]);
        return [statusAddress, metricsAddress, healthAddress].map((setting) => setting?.flag);
      };
      const health = 'health-probe-bind-address';
      assert.deepEqual(addresses(), [undefined, metrics, health]);
      assert.deepEqual(addresses(status), ['status-address', undefined, undefined]);
      assert.deepEqual(addresses(`--${metrics}=:1`, status), ['status-address', metrics, undefined]);
      assert.deepEqual(addresses(status, `--${health}=:1`), ['status-address', undefined, health]);
      assert.deepEqual(addresses('--status-address=0'), [undefined, undefined, undefined]);
    }
  });
});

describe('mirrors', () => {
  it('listens where the original does, and takes its flags', () => {
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
          mirrors: { ...MIRRORS },
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
      [['-zap-encoder=json'], { notes: [] }],
      [['-zap-encoder=console'], { notes: ['--zap-encoder=console has no effect: logs are JSON'] }],
      [
        ['-zap-stacktrace-level=error'],
        { notes: ['--zap-stacktrace-level has no effect: stacks are logged at --log-level debug'] },
      ],
      [
        ['--mirrors-regex=search', '--allow-cross-namespace-auth', '--vault-timeout=2m', '--mirrors-workers=1'],
        {
          mirrors: {
            ...MIRRORS,
            regexMode: 'search',
            allowCrossNamespaceAuth: true,
            vaultTimeoutMs: 120_000,
            workers: 1,
          },
        },
      ],
      [
        ['--vault-addresses=https://a:8200, *.vault.svc', '--vault-addresses', 'b'],
        { mirrors: { ...MIRRORS, vaultAddresses: ['https://a:8200', '*.vault.svc', 'b'] } },
      ],
      [['--leader-elect', 'true'], { notes: ['ignored as by the original, with all that follows: "true"'] }],
    ]);
  });

  it('says that ENABLE_WEBHOOKS means nothing', () => {
    assert.match(configure('mirrors', [], { ENABLE_WEBHOOKS: 'false' }).notes.join(), /^ENABLE_WEBHOOKS has no effect/);
  });

  it('refuses bad values', () => {
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
  };

  it('listens where the original does, and takes its flags', () => {
    table('replicator', [
      [[], { controllers: ['replicator'], statusAddress: at('status-address', 9102), replicator: initial }],
      [['-kube-config', 'a'], { kubeconfig: 'a' }],
      [['-kube-config', 'a', '--kubeconfig=b'], { kubeconfig: 'b' }],
      [['--annotations-prefix=a/'], { replicator: { ...initial, annotationsPrefix: 'a' } }],
      [['--annotations-prefix='], { replicator: { ...initial, annotationsPrefix: '' } }],
      [['-annotations-prefix', 'a.example.com'], { replicator: { ...initial, annotationsPrefix: 'a.example.com' } }],
      [['-allow-all', '-ignore-unknown=true'], { replicator: { ...initial, allowAll: true, ignoreUnknown: true } }],
      [['--resync-period=1h30m'], { replicator: { ...initial, resyncPeriodMs: 5_400_000 } }],
      [['--resync-period=0'], { replicator: { ...initial, resyncPeriodMs: 0 } }],
      [['--run-replicators', 'ConfigMap, SECRET'], { replicator: initial }],
      [['--run-replicators=configMap'], { replicator: { ...initial, runReplicators: ['configmap'] } }],
      [['--run-replicators=ALL'], { replicator: initial }],
      [['--create-with-labels='], { replicator: { ...initial, createWithLabels: {} } }],
      [['--create-with-labels', 'a=b,c=d'], { replicator: { ...initial, createWithLabels: { a: 'b', c: 'd' } } }],
    ]);
  });

  it('refuses bad values', () => {
    const kinds = 'must be all, or a list of secret, configmap';
    refused('replicator', ['--run-replicators=endpoints'], `--run-replicators: bad value "endpoints": ${kinds}`);
    refused('replicator', ['--run-replicators='], `--run-replicators: bad value "": ${kinds}`);
    refused(
      'replicator',
      ['--run-replicators=all,secret'],
      '--run-replicators: bad value "all,secret": all stands alone',
    );
    refused(
      'replicator',
      ['--create-with-labels=a'],
      '--create-with-labels: bad value "a": must be labels as key=value,key=value',
    );
    refused(
      'replicator',
      ['--annotations-prefix=a/b'],
      '--annotations-prefix: bad value "a/b": must be a DNS name, as k8s-replicator or replicator.example.com',
    );
  });
});

describe('syncsecret', () => {
  it('takes the flags of the CCM', () => {
    const initial = {
      clusterName: 'a',
      kubelbKubeconfig: '/home/a/.kube/kubelb',
      secretSynchronizer: false,
      namespace: 'kubelb',
    };
    table('syncsecret-ccm', [
      [
        ['--cluster-name=a'],
        {
          controllers: ['syncsecret-ccm'],
          metricsAddress: at('metrics-addr', 9445),
          healthAddress: at('health-probe-bind-address', 8081),
          syncsecret: initial,
        },
      ],
      [
        ['--cluster-name=a', '--kubelb-kubeconfig', 'b', '-enable-secret-synchronizer'],
        { syncsecret: { ...initial, kubelbKubeconfig: 'b', secretSynchronizer: true } },
      ],
      [['--cluster-name=a', '--zap-log-level=debug'], { logLevel: 'debug' }],
      [
        ['--cluster-name=a', '--node-address-type=ExternalIP', '--use-ingress-class=false'],
        {
          notes: ['without effect, because SyncSecrets do not need them: --node-address-type, --use-ingress-class'],
        },
      ],
    ]);
    const { leaderElect } = configure('syncsecret-ccm', ['--cluster-name=a', '--leader-election-namespace=n']);
    assert.deepEqual([leaderElect.enabled, leaderElect.namespace], [true, 'n']);
    assert.equal(leaderElect.leaseName, '19f32e7b.ccm.kubelb.k8c.io');
    for (const flag of ['--enable-leader-election=false', '--leader-elect=false']) {
      assert.equal(configure('syncsecret-ccm', ['--cluster-name=a', flag]).leaderElect.enabled, false, flag);
    }
    refused('syncsecret-ccm', [], '--cluster-name is required');
    refused(
      'syncsecret-ccm',
      ['--cluster-name=A'],
      '--cluster-name: bad value "A": must be lower case letters, digits and -, at most 56',
    );
  });

  it('takes the flags and the environment of the manager', () => {
    const name = 'syncsecret-manager';
    const config = configure(name, []);
    assert.deepEqual(config.metricsAddress, at('metrics-addr', 9443));
    assert.deepEqual([config.leaderElect.enabled, config.leaderElect.leaseName], [true, '19f32e7b.kubelb.k8c.io']);
    assert.equal(config.syncsecret.namespace, 'kubelb');
    assert.equal(configure(name, [], { NAMESPACE: 'n' }).syncsecret.namespace, 'n');
    assert.equal(configure(name, ['--namespace=m'], { NAMESPACE: 'n' }).syncsecret.namespace, 'm');
    assert.equal(configure(name, ['--debug']).logLevel, 'debug');
    assert.equal(configure(name, ['--debug', '--log-level=error']).logLevel, 'error');
    assert.equal(configure(name, ['--debug=false', '--zap-log-level=error']).logLevel, 'error');
    assert.deepEqual(configure(name, ['--enable-tenant-migration=true', '--zap-time-encoding=iso8601']).notes, [
      'without effect, because SyncSecrets do not need them: --enable-tenant-migration',
      '--zap-time-encoding has no effect: times are RFC 3339',
    ]);
  });
});

describe('generator', () => {
  it('takes the environment of the one-liner', () => {
    assert.deepEqual(configure('generator', []).generator, { all: false, vaultAddress: 'https://127.0.0.1:8200' });
    const config = configure('generator', ['--all'], {
      VAULT_ADDR: 'http://vault.vault:8200',
      VAULT_TOKEN: 'c4n4ry',
      DEBUG: '1',
    });
    assert.deepEqual(config.generator, { all: true, vaultAddress: 'http://vault.vault:8200' });
    assert.equal(config.logLevel, 'debug');
    assert.ok(!JSON.stringify(config).includes('c4n4ry'), 'the token stays in the environment');
  });

  it('refuses what it cannot use', () => {
    const message = '$VAULT_ADDR: bad value "vault:8200": must be a URL with http or https';
    refused('generator', [], message, { VAULT_ADDR: 'vault:8200' });
    refused('generator', [], '$VAULT_ADDR: must not hold a user or password', { VAULT_ADDR: 'http://a:b@vault' });
    refused('generator', ['x'], 'unexpected argument "x"');
  });
});

describe('run', () => {
  it('runs what it can, or what is named', () => {
    table('run', [
      [
        [],
        {
          controllers: ['mirrors', 'replicator', 'syncsecret-manager', 'generator'],
          controllersNamed: false,
          statusAddress: at('status-address', 8080),
          metricsAddress: undefined,
          healthAddress: undefined,
        },
      ],
      [['--syncsecret-cluster-name=a'], { controllers: [...CONTROLLERS], controllersNamed: false }],
      [['--controllers', 'generator,mirrors'], { controllers: ['mirrors', 'generator'], controllersNamed: true }],
    ]);
    refused('run', ['--controllers=x'], `--controllers: bad value "x": must be a list of ${CONTROLLERS.join(', ')}`);
    refused(
      'run',
      ['--controllers=syncsecret-ccm'],
      '--syncsecret-cluster-name is required for the controller syncsecret-ccm',
    );
    refused('run', ['--leader-elect', 'false'], 'unexpected argument "false"');
  });

  it('takes the flags of the systems with their names', () => {
    const config = configure('run', [
      '--mirrors-regex=search',
      '--allow-cross-namespace-auth',
      '--replicator-allow-all',
      '--replicator-run-replicators=secret',
      '--syncsecret-namespace=n',
      '--generator-all',
    ]);
    assert.deepEqual([config.mirrors.regexMode, config.mirrors.allowCrossNamespaceAuth], ['search', true]);
    assert.deepEqual([config.replicator.allowAll, config.replicator.runReplicators], [true, ['secret']]);
    assert.deepEqual([config.syncsecret.namespace, config.generator.all], ['n', true]);
    refused('run', ['--allow-all'], 'unknown flag --allow-all');
    refused('run', ['--metrics-bind-address=:1'], 'unknown flag --metrics-bind-address');
  });

  it('has only the flags of the controllers that are there', () => {
    const run = daemonOf('run', ['mirrors']);
    assert.deepEqual(run.configure([], surroundings)?.controllers, ['mirrors']);
    assert.throws(() => run.configure(['--replicator-allow-all'], surroundings), /unknown flag/);
    assert.throws(() => run.configure(['--controllers=replicator'], surroundings), /must be a list of mirrors$/);
    const bad = { ...surroundings, env: { VAULT_ADDR: 'x' } };
    assert.ok(run.configure([], bad), 'the environment of an absent system is not looked at');
  });
});
