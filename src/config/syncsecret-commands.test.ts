import assert from 'node:assert/strict';
import { describe, it } from 'node:test';

import { findControllerCommand } from './commands.ts';
import type { Config } from './config.ts';
import type { ProcessInfo } from './flags/flags.ts';
import { quoted } from './usage-error.ts';

type CommandName = 'run' | 'syncsecret-ccm' | 'syncsecret-manager';

function configure(name: CommandName, argv: readonly string[], env: ProcessInfo['env'] = {}): Config {
  const processInfo = { env: { HOME: '/home/a', ...env }, hostname: 'host', uniqueId: 'u1' };
  const config = findControllerCommand(name)?.configure(argv, processInfo);
  assert.ok(config);
  return config;
}

function ccm(...argv: readonly string[]): Config {
  return configure('syncsecret-ccm', ['--cluster-name=a', ...argv]);
}

function at(flag: string, port: number): Config['statusAddress'] {
  return { address: { host: '', port }, flag };
}

function refused(name: CommandName, argv: readonly string[], message: string, env?: ProcessInfo['env']): void {
  assert.throws(() => configure(name, argv, env), { name: 'UsageError', message }, argv.join(' '));
}

/** Asserts a note "has no effect" for each of the flags, and no other notes. */
function assertNotes({ notes }: Config, flags: readonly string[]): void {
  const noted = notes.map((note) => /^(--[\w-]+) has no effect: ./.exec(note)?.[1] ?? note);
  assert.deepEqual(noted.toSorted(), flags.map((flag) => flag.replace(/=.*/, '')).toSorted());
}

const NONE_TRAVEL = { servedNamespaces: [], propagateLabels: [], propagateAnnotations: [] };

describe('the keys of labels and annotations that travel', () => {
  const CCM_RUN = ['--controllers=syncsecret-ccm', '--syncsecret-cluster-name=a'];
  const MANAGER_RUN = ['--controllers=syncsecret-manager'];
  const variants: readonly (readonly [CommandName, readonly string[], string])[] = [
    ['syncsecret-ccm', ['--cluster-name=a'], ''],
    ['syncsecret-manager', [], ''],
    ['run', CCM_RUN, 'syncsecret-'],
    ['run', MANAGER_RUN, 'syncsecret-'],
    ['run', ['--controllers=syncsecret-synchronizer'], 'syncsecret-'],
  ];
  for (const [name, argv, prefix] of variants) {
    it(`${name} ${argv.join(' ')} takes --${prefix}propagate-labels and --${prefix}propagate-annotations, and refuses bad patterns`, () => {
      const flags = [`--${prefix}propagate-labels=app,team.*`, `--${prefix}propagate-annotations=.*`];
      const { propagateLabels, propagateAnnotations } = configure(name, [...argv, ...flags]).syncsecret;
      assert.deepEqual([propagateLabels, propagateAnnotations], [['app', 'team.*'], ['.*']]);
      for (const which of ['labels', 'annotations']) {
        const flag = `--${prefix}propagate-${which}`;
        const syntax = '"a(" is not a pattern in RE2 syntax: error parsing regexp: missing closing ): `a(`';
        refused(name, [...argv, `${flag}=ok,a(`], `${flag}: bad value "ok,a(": ${syntax}`);
        const comma = 'a comma ends a pattern, even inside a repetition: "a{1"';
        refused(name, [...argv, `${flag}=a{1,2}`], `${flag}: bad value "a{1,2}": ${comma}`);
        const empty = 'must have at least one item; omit the flag for the default';
        refused(name, [...argv, `${flag}=`], `${flag}: bad value "": ${empty}`);
      }
    });
  }

  it('under run, the propagate flags need a controller of SyncSecrets, and --syncsecret-served-namespaces a manager', () => {
    const message = '--syncsecret-propagate-labels needs a controller of SyncSecrets in --controllers';
    refused('run', ['--syncsecret-propagate-labels=a'], message);
    const served = '--syncsecret-served-namespaces';
    refused('run', [...CCM_RUN, `${served}=a`], `${served} needs syncsecret-manager in --controllers`);
    const patterns = configure('run', [...MANAGER_RUN, `${served}=tenant-.*,app`]).syncsecret.servedNamespaces;
    assert.deepEqual(patterns, ['tenant-.*', 'app']);
    const both = ['--controllers=syncsecret-ccm,syncsecret-manager', '--syncsecret-cluster-name=a'];
    assert.deepEqual(configure('run', both).syncsecret.servedNamespaces, ['tenant-.*']);
    assert.deepEqual(configure('run', [...both, `${served}=app`]).syncsecret.servedNamespaces, ['app']);
    const alone = configure('syncsecret-manager', ['--served-namespaces=tenant-.*']).syncsecret;
    assert.deepEqual(alone.servedNamespaces, ['tenant-.*']);
    const syntax = '"(" is not a pattern in RE2 syntax: error parsing regexp: missing closing ): `(`';
    refused('syncsecret-manager', ['--served-namespaces=('], `--served-namespaces: bad value "(": ${syntax}`);
  });
});

describe('syncsecret-ccm', () => {
  it('syncsecret-ccm has the defaults of the CCM of KubeLB', () => {
    const config = ccm();
    const expected: Partial<Config> = {
      controllers: ['syncsecret-ccm'],
      controllersNamed: true,
      management: { kubeconfig: '/home/a/.kube/kubelb', flag: '--kubelb-kubeconfig' },
      syncsecret: { managementNamespace: 'tenant-a', ...NONE_TRAVEL },
      metricsAddress: at('metrics-addr', 9445),
      healthAddress: at('health-probe-bind-address', 8081),
      statusAddress: undefined,
      deletionTimeoutMs: 60_000,
      logLevel: 'info',
      logFormat: undefined,
      notes: [],
    };
    for (const [key, value] of Object.entries(expected)) assert.deepEqual(config[key as keyof Config], value, key);
    const { enabled, leaseName, namespace } = config.leaderElect;
    assert.deepEqual([enabled, leaseName, namespace], [true, '19f32e7b.ccm.kubelb.k8c.io', undefined]);
  });

  it('syncsecret-ccm reads the flags of the original', () => {
    for (const [argv, part] of [
      [['-kubelb-kubeconfig', 'k'], { management: { kubeconfig: 'k', flag: '--kubelb-kubeconfig' } }],
      [['--kubeconfig=k'], { kubeconfig: 'k' }],
      [['--enable-secret-synchronizer'], { controllers: ['syncsecret-ccm', 'syncsecret-synchronizer'] }],
      [['--enable-secret-synchronizer=false'], { controllers: ['syncsecret-ccm'] }],
      [['--metrics-addr=0', '--health-probe-bind-address='], { metricsAddress: undefined, healthAddress: undefined }],
      [['--status-address=:1'], { statusAddress: at('status-address', 1), metricsAddress: undefined }],
      [
        ['--status-address=:1', '--metrics-addr=:2'],
        { metricsAddress: at('metrics-addr', 2), healthAddress: undefined },
      ],
      [['--zap-log-level=debug'], { logLevel: 'debug' }],
      [['--zap-log-level=debug', '--log-level=warn'], { logLevel: 'warn' }],
      [['--deletion-timeout=5s'], { deletionTimeoutMs: 5000 }],
      [['rest'], { notes: ['ignored "rest" and all arguments after it, as the original does'] }],
    ] as const) {
      const config = ccm(...argv);
      for (const [key, value] of Object.entries(part)) {
        assert.deepEqual(config[key as keyof Config], value, `${argv.join(' ')}: ${key}`);
      }
    }
  });

  it('syncsecret-ccm reads leader election from the flags of Keyferry and of KubeLB; those of Keyferry win', () => {
    for (const [argv, expected] of [
      [['--enable-leader-election=false'], [false, undefined]],
      [['--leader-elect=false'], [false, undefined]],
      [
        ['--enable-leader-election=false', '--leader-elect'],
        [true, undefined],
      ],
      [['--leader-election-namespace=n'], [true, 'n']],
      [
        ['--leader-election-namespace=n', '--leader-elect-namespace=m'],
        [true, 'm'],
      ],
      [
        ['--leader-election-namespace=n', '--leader-elect-namespace='],
        [true, 'n'],
      ],
    ] as const) {
      const { enabled, namespace } = ccm(...argv).leaderElect;
      assert.deepEqual([enabled, namespace], expected, argv.join(' '));
    }
  });

  it('syncsecret-ccm accepts the flags of the original for other parts of KubeLB, and notes that they have no effect', () => {
    const flags = [
      '--node-address-type=InternalIP',
      '--enable-cloud-provider=false',
      '--use-ingress-class=false',
      '--use-loadbalancer-class',
      '--use-gateway-class=false',
      '--disable-ingress-controller',
      '--disable-gateway-controller',
      '--disable-httproute-controller',
      '--disable-grpcroute-controller',
      '--install-gateway-api-crds',
      '--gateway-api-crds-channel=standard',
      '--disable-gateway-api',
      '--enable-gateway-api=true',
    ];
    assertNotes(ccm(...flags), flags);
  });

  it('--cluster-name gives the same tenant with and without the prefix tenant-', () => {
    for (const [name, namespace] of [
      ['primary', 'tenant-primary'],
      ['tenant-primary', 'tenant-primary'],
      ['1', 'tenant-1'],
      ['tenant', 'tenant-tenant'],
      ['a'.repeat(56), `tenant-${'a'.repeat(56)}`],
      [`tenant-${'a'.repeat(56)}`, `tenant-${'a'.repeat(56)}`],
    ] as const) {
      const { managementNamespace } = configure('syncsecret-ccm', ['--cluster-name', name]).syncsecret;
      assert.equal(managementNamespace, namespace);
    }
  });

  it('syncsecret-ccm refuses a missing --cluster-name, and one that gives no valid name of a namespace', () => {
    const rule =
      "tenant-<name> must be a namespace of lower case letters, digits and '-', with a letter or digit at the end, and at most 63 characters";
    for (const bad of ['A', 'a.b', 'a_b', 'a-', 'a b', 'tenant-', '../x', 'a'.repeat(57), `tenant-${'a'.repeat(57)}`]) {
      refused('syncsecret-ccm', ['--cluster-name', bad], `--cluster-name: bad value ${quoted(bad)}: ${rule}`);
    }
    for (const argv of [[], ['--cluster-name=']]) {
      refused('syncsecret-ccm', argv, '--cluster-name is required: the name of the tenant');
    }
  });
});

it('without $HOME, --kubelb-kubeconfig is required', () => {
  const message = '--kubelb-kubeconfig is required, because $HOME is not set';
  refused('syncsecret-ccm', ['--cluster-name=a'], message, { HOME: '' });
});

describe('syncsecret-manager', () => {
  const manager = (...argv: readonly string[]): Config => configure('syncsecret-manager', argv);

  it('syncsecret-manager has the defaults of the manager of KubeLB', () => {
    const config = manager();
    assert.deepEqual(config.controllers, ['syncsecret-manager']);
    assert.deepEqual(config.metricsAddress, at('metrics-addr', 9443));
    assert.deepEqual(config.healthAddress, at('health-probe-bind-address', 8081));
    assert.equal(config.management, undefined);
    assert.equal(config.logLevel, 'info');
    const { enabled, leaseName, namespace } = config.leaderElect;
    assert.deepEqual([enabled, leaseName, namespace], [true, '19f32e7b.kubelb.k8c.io', 'kubelb']);
  });

  it('the namespace of the Lease of the manager comes from a flag, otherwise from $NAMESPACE, otherwise from the Pod, otherwise it is kubelb', () => {
    for (const [argv, env, namespace] of [
      [['--leader-elect-namespace=m', '--namespace=n'], { NAMESPACE: 'e' }, 'm'],
      [['--namespace=n'], { NAMESPACE: 'e', POD_NAMESPACE: 'p' }, 'n'],
      [[], { NAMESPACE: 'e', POD_NAMESPACE: 'p' }, 'e'],
      [[], { NAMESPACE: '', POD_NAMESPACE: 'p' }, 'p'],
      [[], { NAMESPACE: '', POD_NAMESPACE: '' }, 'kubelb'],
      // `undefined`: in a Pod, the connection knows the namespace, which is that of the ServiceAccount.
      [[], { KUBERNETES_SERVICE_HOST: '10.0.0.1' }, undefined],
      [[], { KUBERNETES_SERVICE_HOST: '10.0.0.1', NAMESPACE: 'e' }, 'e'],
      [['--kubeconfig=k'], { KUBERNETES_SERVICE_HOST: '10.0.0.1' }, 'kubelb'],
      [[], { KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBECONFIG: 'k' }, 'kubelb'],
    ] as const) {
      assert.equal(configure('syncsecret-manager', argv, env).leaderElect.namespace, namespace);
    }
    const letters = "must be a name of lower case letters, digits and '-'";
    const ends = 'with a letter or digit at both ends';
    refused('syncsecret-manager', ['--namespace=A'], `--namespace: bad value "A": ${letters}, ${ends}`);
    const ccmFlag = '--leader-election-namespace';
    refused('syncsecret-ccm', ['--cluster-name=a', `${ccmFlag}=A`], `${ccmFlag}: bad value "A": ${letters}, ${ends}`);
    refused('syncsecret-manager', [], `$NAMESPACE: bad value "A": ${letters}`, { NAMESPACE: 'A' });
  });

  it('syncsecret-manager reads the flags of the original, and notes which of them have no effect', () => {
    assert.equal(manager('--enable-leader-election=false').leaderElect.enabled, false);
    assert.equal(manager('--debug').logLevel, 'debug');
    assert.equal(manager('--debug', '--log-level=error').logLevel, 'error');
    assert.equal(manager('--zap-log-level=error').logLevel, 'error');
    const ignored = [
      '--listen-address=:8001',
      '--envoy-cp-metrics-addr=:9444',
      '--enable-tenant-migration=true',
      '--disable-gateway-api',
      '--enable-gateway-api',
    ];
    assertNotes(manager(...ignored), ignored);
  });
});

describe('the roles of SyncSecret under run', () => {
  const run = (...argv: readonly string[]): Config => configure('run', argv);

  it('run starts CCM and manager only if --controllers names them', () => {
    assert.deepEqual(run().controllers, ['mirrors', 'replicator', 'generator']);
    assert.equal(run().management, undefined);
    assert.deepEqual(run('--controllers=syncsecret-manager,mirrors').controllers, ['mirrors', 'syncsecret-manager']);
  });

  it('under run, the flags of the CCM begin with syncsecret-', () => {
    const named = ['--controllers=syncsecret-ccm,syncsecret-manager', '--syncsecret-cluster-name=tenant-a'];
    const config = run(...named, '--syncsecret-kubelb-kubeconfig=k', '--syncsecret-enable-secret-synchronizer');
    assert.deepEqual(config.controllers, ['syncsecret-manager', 'syncsecret-ccm', 'syncsecret-synchronizer']);
    assert.deepEqual(config.management, { kubeconfig: 'k', flag: '--syncsecret-kubelb-kubeconfig' });
    const servedNamespaces = ['tenant-.*'];
    assert.deepEqual(config.syncsecret, { managementNamespace: 'tenant-a', ...NONE_TRAVEL, servedNamespaces });
    assert.equal(run(...named).management?.kubeconfig, '/home/a/.kube/kubelb');
  });

  it('run starts the synchronizer without a CCM if --controllers names it', () => {
    const named = run('--controllers=syncsecret-synchronizer');
    assert.deepEqual([named.controllers, named.management], [['syncsecret-synchronizer'], undefined]);
  });

  it('run refuses syncsecret-ccm without --syncsecret-cluster-name, and flags of the CCM without syncsecret-ccm', () => {
    const missing = '--syncsecret-cluster-name is required: the name of the tenant';
    refused('run', ['--controllers=syncsecret-ccm'], missing);
    for (const flag of ['cluster-name=a', 'kubelb-kubeconfig=k', 'enable-secret-synchronizer']) {
      const name = `--syncsecret-${flag.split('=')[0]}`;
      refused('run', [`--syncsecret-${flag}`], `${name} needs syncsecret-ccm in --controllers`);
    }
  });
});
