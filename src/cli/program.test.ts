import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parse } from 'yaml';
import { CONTROLLER_COMMANDS } from '../config/commands.ts';
import { CONTROLLERS } from '../config/controller-names.ts';
import type { Config } from '../config/config.ts';
import { UsageError } from '../config/usage-error.ts';
import type { Actions, CliContext, ExitCode, StatusOptions } from '../commands/actions.ts';
import { runCli } from './program.ts';

const TESTED = { kubernetes: '1.36.3', vault: 'Vault 1.13.0', externalSecrets: '0.20.4', date: '2026-01-31' };
const BUILD = { version: '1.2.3', commit: 'c0ffee', node: '24.0.0', platform: 'linux/x64', tested: [TESTED] };
const COMMANDS = ['run', 'mirrors', 'replicator', 'crds', 'status', 'plan', 'explain', 'version', 'completion'];

interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** The names of the called actions, with their arguments. */
  readonly called: readonly unknown[];
}

interface Recorder {
  readonly actions: Actions;
  readonly called: unknown[];
}

/** Makes all actions. Each one records its call and returns `code`. */
function recorder(code = 0): Recorder {
  const called: unknown[] = [];
  const record =
    (name: string) =>
    async (options?: unknown): Promise<ExitCode> => {
      called.push(name, options);
      return await Promise.resolve(code);
    };
  const actions = {
    run: record('run'),
    crds: record('crds'),
    status: record('status'),
    plan: record('plan'),
    explain: record('explain'),
    ui: record('ui'),
    complete: () => Promise.resolve([]),
  };
  return { actions, called };
}

/** The controllers in the Config that the action `run` was called with. */
function controllersOf({ called: [name, config] }: Result): readonly string[] {
  assert.equal(name, 'run');
  return (config as Config).controllers;
}

async function cli(
  argv: readonly string[],
  { actions, called } = recorder(),
  startedAs = ['/app/dist/keyferry.cjs', 'node'],
  env: Readonly<Record<string, string>> = {},
): Promise<Result> {
  const written = { stdout: '', stderr: '' };
  const context: CliContext = {
    actions,
    startedAs,
    build: BUILD,
    columns: undefined,
    processInfo: { env, hostname: 'host', uniqueId: 'u1' },
    stdout: (text) => void (written.stdout += text),
    stderr: (text) => void (written.stderr += text),
  };
  return { code: await runCli(context, argv), ...written, called };
}

describe('help and version', () => {
  it('--version prints the version', async () => {
    for (const flag of ['--version', '-V']) {
      const { code, stdout, stderr } = await cli([flag]);
      assert.deepEqual([code, stdout, stderr], [0, '1.2.3\n', '']);
    }
  });

  it('keyferry version prints version, commit, Node and the tested servers as a table, JSON or YAML', async () => {
    const table = await cli(['version']);
    const lines = ['commit   c0ffee', 'Node     24.0.0', 'platform linux/x64'];
    const servers = 'tested   Kubernetes 1.36.3, Vault 1.13.0 (2026-01-31)';
    assert.equal(table.stdout, ['Keyferry 1.2.3', ...lines, servers, ''].join('\n'));
    const { code, stdout } = await cli(['version', '-o', 'json']);
    const expected = { apiVersion: 'keyferry.dev/v1', kind: 'Version', ...BUILD };
    assert.deepEqual([code, JSON.parse(stdout)], [0, expected]);
    assert.deepEqual(parse((await cli(['version', '-o', 'yaml'])).stdout), expected);
  });

  it('--help lists the commands', async () => {
    const all = await cli(['--help']);
    assert.equal(all.code, 0);
    for (const name of COMMANDS) {
      assert.match(all.stdout, new RegExp(`^ {2}${name}\\b`, 'm'));
    }
    assert.match(
      all.stdout.replaceAll(/\s+/g, ' '),
      /Exit codes: 0 success, 1 failure, 2 usage error, 3 \(plan\) a copy would be lost or refused\./,
    );
  });

  it('the help of every command has examples', async () => {
    for (const argv of [[], ...COMMANDS.map((name) => [name])]) {
      const { code, stdout } = await cli([...argv, '--help']);
      assert.equal(code, 0);
      assert.match(stdout, new RegExp(`\\nExamples:\\n  .*${['keyferry', ...argv].join(' ')}`));
    }
  });

  it('for each command that runs controllers, the help lists flags, defaults and examples', async () => {
    for (const { name } of CONTROLLER_COMMANDS) {
      const { code, stdout, stderr, called } = await cli([name, '--help']);
      assert.deepEqual([code, stderr, called], [0, '', []], name);
      assert.match(stdout, new RegExp(`^Usage: keyferry ${name} `));
      assert.match(stdout, /--kubeconfig <path>/);
      assert.match(stdout, /--leader-elect-lease-duration <duration>[^-]*\(default:\s+15s\)/);
      assert.match(stdout, /--log-level <(debug\|info\|warn\|error|level)>[^-]*\(default: info\)/);
      assert.match(stdout, new RegExp(`Examples:\\n  .*keyferry ${name}`));
      for (const argv of [
        ['help', name],
        [name, '-h'],
        [name, '-help'],
        [name, '--log-level=warn', '--help'],
      ]) {
        assert.equal((await cli(argv)).stdout, stdout, argv.join(' '));
      }
    }
  });

  it('the help of keyferry run lists the flags of all controllers', async () => {
    const { stdout } = await cli(['run', '--help']);
    assert.match(stdout, /--replicator-allow-all/);
    assert.match(stdout, /--mirrors-regex <full\|search>/);
    const list = `comma-separated list of ${CONTROLLERS.join(', ')} (default: mirrors, replicator, generator)`;
    assert.ok(stdout.replaceAll(/\s+/g, ' ').includes(list), `--controllers: ${list}`);
    assert.match(stdout, /--syncsecret-cluster-name <name>/);
    assert.match(stdout, /--generator-all/);
  });

  it('the help of a command that reads rules has its own flags first, at most five examples, and only the names of the operator’s settings', async () => {
    for (const name of ['status', 'plan', 'explain']) {
      const { stdout } = await cli([name, '--help']);
      const titles = [...stdout.matchAll(/^([A-Z][\w ]+)(?:\.[^:]*)?:/gms)].map(([, title]) => title);
      assert.ok(titles.indexOf('Options') < titles.indexOf('Cluster'), stdout);
      const [, settings = ''] = stdout.split('Settings of the operator');
      assert.match(settings, /^ {2}--controllers --namespaces /m);
      assert.doesNotMatch(stdout, /same as for/);
      assert.ok((stdout.match(/^ {2}.*keyferry /gm) ?? []).length <= 5, stdout);
    }
  });

  it('no line of a help is longer than 80 columns where no terminal says more, except examples and links', async () => {
    for (const argv of [[], ...COMMANDS.map((name) => [name])]) {
      const { stdout } = await cli([...argv, '--help']);
      const long = stdout.split('\n').filter((line) => line.length > 80 && !/https:|^ {2}(\S.* )?keyferry /.test(line));
      assert.deepEqual(long, [], argv.join(' '));
    }
  });

  it('the help of crds shows an example, that of status the output formats, and that of plan the usage', async () => {
    for (const [name, text] of [
      ['crds', /keyferry crds \| kubectl apply --server-side -f -/],
      ['status', /-o, --output <table\|wide\|json\|yaml\|name>[^-]*\(default:\s+table\)/],
      ['plan', /Usage: keyferry plan \[options\] \[files\.\.\.\]/],
    ] as const) {
      const { code, stdout } = await cli([name, '--help']);
      assert.equal(code, 0);
      assert.match(stdout, text);
    }
  });
});

describe('exit codes', () => {
  it('the program exits with the exit code of the action', async () => {
    for (const code of [0, 1, 7]) {
      for (const argv of [['run'], ['crds'], ['plan', 'a.yaml']]) {
        assert.equal((await cli(argv, recorder(code))).code, code);
      }
    }
  });

  it('if the command line is wrong, the exit code is 2', async () => {
    for (const [argv, message] of [
      [[], /Usage: keyferry/],
      [['nope'], /unknown command 'nope'/],
      [['statos'], /unknown command 'statos'; did you mean status\?\nTry `keyferry --help`\.\n$/],
      [['ui', '--no-open'], /unknown flag --no-open; did you mean --open=false\?/],
      [['help', 'statos'], /did you mean status\?/],
      [['--nope'], /unknown flag --nope/],
      [['-x', 'status'], /unknown flag -x: begin with a command/],
      [['status', '--nope'], /^keyferry status: unknown flag --nope\n/],
      [['status', '--outptu', 'json'], /unknown flag --outptu; did you mean --output\?/],
      [['status', '--outptu=json'], /unknown flag --outptu; did you mean --output\?/],
      [['status', '-wx'], /unknown flag -wx\n/],
      [['status', '--failed', 'false'], /unexpected argument "false"\n/],
      [['status', '-o', 'xml'], /--output: bad value "xml": must be one of table, wide, json, yaml/],
      [['status', '-n'], /--namespace needs a value\n/],
      [['status', '--namespace-selector=a=b'], /name the namespaces with --namespaces\n/],
      [['plan', '-', '--namespace-selector=a=b'], /name the namespaces with --namespaces\n/],
      [['explain', 'secret', 'a/b', '--namespace-selector=a=b'], /name the namespaces with --namespaces\n/],
      [['status', '--namespaces=a', '--require-consent'], /--namespaces reads no annotations of namespaces\n/],
      [['status', '--namespaces=a', '--source-namespaces=selector:a=b'], /--namespaces reads no labels of namespaces/],
      [['status', '--replicator-annotations-prefix=A B'], /bad value "A B": must be a DNS name/],
      [['status', '-n', '--failed'], /--namespace needs a value; if "--failed" is it, write =\n/],
      [['plan', '-o', 'wide', 'a'], /must be one of table, json, yaml/],
      [['completion'], /missing required argument 'shell'/],
      [['completion', 'csh'], /bad argument "csh": must be one of bash, zsh, fish/],
      [['status', 'x'], /unexpected argument "x"/],
      [['explain', 'secret', 'a', 'b'], /unexpected argument "b"/],
      [['explain'], /missing required argument 'kind'/],
      [
        ['migrate', '--from', 'reflector', '--apply'],
        /^keyferry migrate: there is no command migrate any more: keyferry plan /,
      ],
      [['help', 'migrate'], /keyferry plan shows what a start of Keyferry would do/],
      [['explain', 'secret'], /missing required argument 'place'\nTry `keyferry explain --help`\.\n$/],
      [['crds', '-n', 'a'], /unknown flag -n\nTry `keyferry crds --help`\.\n$/],
      [['run', '--nope'], /^keyferry run: unknown flag --nope\nTry `keyferry run --help`\.\n$/],
      [['run', 'x'], /^keyferry run: unexpected argument "x"\n/],
      [['mirrors', '-metrics-bind-address', 'x'], /^keyferry mirrors: --metrics-bind-address: bad value "x": must be/],
      [['replicator', '--resync-period=soon'], /^keyferry replicator: --resync-period: bad value "soon": must be/],
      [['generator', '--credentials=vault'], /^keyferry generator: --credentials: bad value "vault"/],
    ] as const) {
      const { code, stdout, stderr, called } = await cli(argv);
      assert.deepEqual([code, stdout, called], [2, '', []], argv.join(' '));
      assert.match(stderr, message);
      // With no command, the program prints the help itself instead of the advice to read it.
      if (argv.length > 0) assert.match(stderr, /\nTry `keyferry( [a-z]+)? --help`\.\n$/);
    }
  });

  it('if an action throws, the exit code is 1 (for a UsageError 2), and the error is printed without a stack', async () => {
    const cause = new Error('connect ECONNREFUSED 127.0.0.1:1');
    const failing = {
      ...recorder().actions,
      status: () => Promise.reject(new Error('the cluster cannot be reached', { cause })),
    };
    const failed = await cli(['status'], { actions: failing, called: [] });
    assert.equal(failed.code, 1);
    assert.equal(failed.stderr, 'keyferry status: the cluster cannot be reached (connect ECONNREFUSED 127.0.0.1:1)\n');
    const usage = { ...recorder().actions, plan: () => Promise.reject(new UsageError('a.yaml: no such file')) };
    const refused = await cli(['plan', 'a.yaml'], { actions: usage, called: [] });
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /^keyferry plan: a\.yaml: no such file\n/);
  });
});

describe('the argument of the actions', () => {
  it('each action is called with the options of its command', async () => {
    const replicator = {
      annotationsPrefix: 'k8s-replicator',
      allowAll: false,
      ignoreUnknown: false,
      runReplicators: ['secret', 'configmap'],
    };
    const syncsecret = { propagateLabels: [], propagateAnnotations: [] };
    const limits = {
      sourceNamespaces: undefined,
      destinationNamespaces: undefined,
      excludedNamespaces: undefined,
      requireConsent: false,
      replicatorPush: true,
      reflectorPush: true,
      adoptOrphans: false,
      mittwaldPush: true,
    };
    const config = {
      controllers: undefined,
      namespaces: [],
      reflector: { excludedNamespaces: [] },
      configSyncer: { clusterName: '', sourceNamespace: undefined },
      mittwald: {
        allowAll: false,
        excludeNamespaces: [],
        replicateSecrets: true,
        replicateConfigMaps: true,
        replicateRoles: true,
        replicateRoleBindings: true,
        replicateServiceAccounts: true,
        regex: 'whole',
        configMapsUngated: false,
        mergeForeign: false,
      },
      limits,
      mirrors: { regexMode: 'full' },
      replicator,
      syncsecret,
    };
    const cluster = { kubeconfig: undefined, context: undefined };
    const status = {
      ...cluster,
      namespace: undefined,
      failed: false,
      orphans: false,
      copies: false,
      watch: false,
      exitCode: false,
      leaseName: 'keyferry',
      output: 'table',
      config: { ...config, assumed: [] },
    };
    const called = async (argv: readonly string[]): Promise<readonly unknown[]> => {
      const { code, stderr, called: calls } = await cli(argv);
      assert.deepEqual([code, stderr], [0, ''], argv.join(' '));
      return calls;
    };
    assert.deepEqual(await called(['crds']), ['crds', undefined]);
    assert.deepEqual(await called(['status']), ['status', status]);
    const ofLimits = [
      '--source-namespaces=a,b-.*',
      '--destination-namespaces=selector:tier in (x,y)',
      '--require-consent',
      '--replicator-push=false',
      '--reflector-push=false',
      '--adopt-orphans',
    ];
    const ofReplicator = [
      '--replicator-annotations-prefix=my.org/',
      '--replicator-allow-all',
      '--replicator-ignore-unknown',
      '--replicator-run-replicators=ConfigMap',
    ];
    const limited = {
      sourceNamespaces: { patterns: ['a', 'b-.*'] },
      destinationNamespaces: { selector: 'tier in (x,y)' },
      excludedNamespaces: undefined,
      requireConsent: true,
      replicatorPush: false,
      reflectorPush: false,
      adoptOrphans: true,
      mittwaldPush: true,
    };
    const prefixed = {
      annotationsPrefix: 'my.org',
      allowAll: true,
      ignoreUnknown: true,
      runReplicators: ['configmap'],
    };
    const travel = ['--syncsecret-propagate-labels=a,b', '--syncsecret-propagate-labels=c'];
    for (const [argv, changed] of [
      [ofLimits, { config: { limits: limited } }],
      [travel, { config: { syncsecret: { propagateLabels: ['a', 'b', 'c'] } } }],
      [ofReplicator, { config: { replicator: prefixed } }],
      [['-n', 'a', '-ojson'], { namespace: 'a', output: 'json' }],
      [
        ['--kubeconfig', 'k', '--context=c', '--namespace=a', '--output=json'],
        { kubeconfig: 'k', context: 'c', namespace: 'a', output: 'json' },
      ],
      [
        ['-n', 'a', '-A', '--failed', '--mirrors-regex', 'search'],
        { namespace: undefined, failed: true, config: { mirrors: { regexMode: 'search' } } },
      ],
      [['--exit-code'], { exitCode: true }],
    ] as const)
      assert.partialDeepStrictEqual(await called(['status', ...argv]), ['status', changed], argv.join(' '));
    const files = { recursive: false, all: false, output: 'table', namespace: undefined };
    for (const [argv, expected] of [
      [['a', '-', '--kubeconfig=k'], { ...files, kubeconfig: 'k', files: ['a', '-'] }],
      [
        ['-R', '--all', '-n', 'b', 'a', '-oyaml'],
        { namespace: 'b', files: ['a'], output: 'yaml', recursive: true, all: true },
      ],
      [['a', '-f', 'b', '--filename=c'], { ...files, files: ['a', 'b', 'c'] }],
    ] as const)
      assert.partialDeepStrictEqual(await called(['plan', ...argv]), ['plan', expected], argv.join(' '));
    for (const [argv, expected] of [
      [['Secret', 'a/b', '-ojson', '--context=c'], { context: 'c', kind: 'Secret', output: 'json', exitCode: false }],
      [
        ['Secret', 'a/b', '--exit-code', '--namespaces=a'],
        { kind: 'Secret', exitCode: true, config: { namespaces: ['a'] } },
      ],
      ...[['secret/b', '-n', 'a'], ['secret', 'b', '-n', 'a'], ['secret/a/b']].map(
        (words) => [words, { kind: 'secret', output: 'table' }] as const,
      ),
    ] as const) {
      const wanted = ['explain', { ...expected, place: 'a/b' }];
      assert.partialDeepStrictEqual(await called(['explain', ...argv]), wanted, argv.join(' '));
    }
  });

  it('status --watch refuses --exit-code and --orphans, which would have no effect; -o name needs --orphans', async () => {
    for (const [args, message] of [
      [['-w', '--exit-code'], /--exit-code has no effect with --watch/],
      [['-w', '--orphans'], /--orphans has no effect with --watch/],
      [['-o', 'name'], /-o name needs --orphans/],
    ] as const) {
      const { code, stderr, called } = await cli(['status', ...args]);
      assert.deepEqual([code, called], [2, []]);
      assert.match(stderr, message);
    }
  });

  it('the variables of the operator in its container set what a command assumes, and a flag replaces one of them', async () => {
    const env = {
      KEYFERRY_CONTROLLERS: 'mirrors',
      KEYFERRY_NAMESPACES: 'a,b',
      KEYFERRY_MIRRORS_REGEX: 'search',
      KEYFERRY_REPLICATOR_ALLOW_ALL: 'true',
      KEYFERRY_REPLICATOR_ANNOTATIONS_PREFIX: '',
      KEYFERRY_LEADER_ELECT_LEASE_NAME: 'l',
      KEYFERRY_REPLICATOR_PUSH: 'true',
    };
    const optionsOf = async (...argv: string[]) => {
      const { code, stderr, called } = await cli(argv, undefined, undefined, env);
      assert.deepEqual([code, stderr], [0, '']);
      return called[1] as StatusOptions;
    };
    for (const command of [['status'], ['plan', 'a'], ['explain', 'secret', 'a/b']]) {
      const { config } = await optionsOf(...command);
      assert.deepEqual([config.namespaces, config.controllers], [['a', 'b'], ['mirrors']], command[0]);
      const { allowAll, annotationsPrefix } = config.replicator;
      assert.deepEqual([config.mirrors.regexMode, allowAll, annotationsPrefix], ['search', true, '']);
      const assumed = ['--controllers=mirrors', '--namespaces=a,b', '--mirrors-regex=search'];
      const ofReplicator = ['--replicator-annotations-prefix=', '--replicator-allow-all=true'];
      assert.deepEqual(config.assumed, [...assumed, ...ofReplicator], 'without the defaults');
    }
    const given = await optionsOf('status', '--namespaces=c', '--leader-elect-lease-name=m');
    assert.deepEqual([given.config.namespaces, given.config.mirrors.regexMode], [['c'], 'search']);
    assert.deepEqual([(await optionsOf('status')).leaseName, given.leaseName], ['l', 'm']);
    const run = (await cli(['run'], undefined, undefined, env)).called[1] as Config;
    assert.deepEqual([run.controllers, run.kube.namespaces], [['mirrors'], ['a', 'b']]);
    const replicator = (await cli(['replicator', '--namespaces=x'], undefined, undefined, env)).called[1] as Config;
    assert.deepEqual([replicator.replicator.allowAll, replicator.kube.namespaces], [true, ['x']]);
    const empty = await cli(['status'], undefined, undefined, { KEYFERRY_NAMESPACES: '' });
    assert.match(empty.stderr, /^keyferry status: \$KEYFERRY_NAMESPACES: bad value "": must have at least one item/);
  });
});

describe('as the replacement of an original', () => {
  const name = (path: string, argv: readonly string[], found = recorder()): Promise<Result> =>
    cli(argv, found, [path, 'node']);

  it('if keyferry is started by a link with the name of an original, it runs the command that replaces the original', async () => {
    const chart = ['--leader-elect', '--health-probe-bind-address=:8081', '--metrics-bind-address=127.0.0.1:8080'];
    for (const [path, argv, command] of [
      ['/manager', chart, 'mirrors'],
      ['/manager', [], 'mirrors'],
      ['/usr/local/bin/manager', ['--zap-devel=false'], 'mirrors'],
      ['/k8s-replicator', [], 'replicator'],
      ['/k8s-replicator', ['--annotations-prefix', 'x.example.com', '--allow-all'], 'replicator'],
    ] as const) {
      const result = await name(path, argv);
      assert.deepEqual([result.code, result.stderr, controllersOf(result)], [0, '', [command]], path);
      assert.deepEqual(result.called, (await cli([command, ...argv])).called, 'as the command with these flags');
    }
  });

  it('if the process has the name (argv0) of an original, keyferry runs the command that replaces the original', async () => {
    const startedAs = ['/app/dist/keyferry.cjs', 'k8s-replicator'];
    assert.deepEqual(controllersOf(await cli(['--leader-elect'], recorder(), startedAs)), ['replicator']);
  });

  it('a link named constructor, like a member of every object in JavaScript, selects no command', async () => {
    assert.match((await name('/constructor', [])).stderr, /Usage: keyferry/);
  });

  it('if keyferry is started under the name of an original, help and errors name the command', async () => {
    assert.match((await name('/manager', ['--help'])).stdout, /^Usage: keyferry mirrors /);
    const { code, stderr } = await name('/manager', ['--nope']);
    assert.deepEqual([code, stderr], [2, 'keyferry mirrors: unknown flag --nope\nTry `keyferry mirrors --help`.\n']);
  });

  it('flags of an original without a command run the command that replaces the original', async () => {
    for (const [argv, command] of [
      [['--leader-elect'], 'mirrors'],
      [['--health-probe-bind-address=:8081', '-metrics-bind-address', ':8080', '--leader-elect'], 'mirrors'],
      [['--leader-elect', '--mirrors-regex=search'], 'mirrors'],
      [['--zap-log-level=debug', '--metrics-bind-address=:8080'], 'mirrors'],
      [['-allow-all', '-resync-period', '1h'], 'replicator'],
      [['--status-address=:9102'], 'replicator'],
      [['--kubeconfig', 'k', '--create-with-labels='], 'replicator'],
    ] as const) {
      const result = await cli(argv);
      assert.deepEqual([result.code, result.stderr, controllersOf(result)], [0, '', [command]], argv.join(' '));
    }
  });

  it('if one of the flags of an original is unknown, the error names the flags', async () => {
    const { code, stderr } = await cli(['--annotations-prefix=a.example.com', '--nope']);
    const advice = 'no command has all of --annotations-prefix, --nope: put the name of the command before them';
    assert.deepEqual([code, stderr.split('\n')[0]], [2, `keyferry: ${advice}`]);
  });

  it('if the flags fit several originals, keyferry prints an error and starts nothing', async () => {
    for (const argv of [['--health-probe-bind-address=:8081'], ['--kubeconfig', 'k'], ['--kubeconfig=k', 'status']]) {
      const { code, stderr, called } = await cli(argv);
      assert.deepEqual([code, called], [2, []], argv.join(' '));
      assert.match(
        stderr,
        /put the name of the command before them, one of mirrors, syncsecret-ccm, syncsecret-manager\n/,
      );
    }
  });

  it("the flags in KubeLB's charts run the command that replaces CCM or the manager", async () => {
    for (const [path, argv, command] of [
      ['/ccm', ['--cluster-name=a', '--kubelb-kubeconfig=k'], 'syncsecret-ccm'],
      ['/kubelb', ['--debug=false'], 'syncsecret-manager'],
      // The flags as KubeLB's charts write them.
      [
        '',
        [
          '--enable-leader-election=true',
          '--node-address-type=ExternalIP',
          '--use-loadbalancer-class=false',
          '--enable-gateway-api=true',
          '--cluster-name=a',
          '--kubelb-kubeconfig=k',
          '--zap-log-level=info',
        ],
        'syncsecret-ccm',
      ],
      [
        '',
        ['--enable-leader-election=true', '--enable-tenant-migration=true', '--debug=false', '--zap-log-level=info'],
        'syncsecret-manager',
      ],
    ] as const) {
      const result = await name(path, argv);
      assert.deepEqual([result.code, result.stderr, controllersOf(result)], [0, '', [command]], argv.join(' '));
    }
  });
});
