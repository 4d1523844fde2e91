import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CONTROLLERS, type Config } from '../config/config.ts';
import { DAEMONS } from '../config/daemon.ts';
import { UsageError } from '../config/usage-error.ts';
import type { Actions, CliContext } from './actions.ts';
import { runCli } from './dispatch.ts';
import { runProgram } from './program.ts';

interface Result {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  /** What the action was called with, after its name. */
  readonly called: readonly unknown[];
}

interface Recorder {
  readonly actions: Actions;
  readonly called: unknown[];
}

/** Every action, answering `code`. */
function recorder(code = 0): Recorder {
  const called: unknown[] = [];
  const record = (name: string) => (options?: unknown) => {
    called.push(name, options);
    return Promise.resolve(code);
  };
  const names = [...DAEMONS, 'crds', 'status', 'plan', 'demo'];
  return { actions: Object.fromEntries(names.map((name) => [name, record(name)])), called };
}

async function cli(
  argv: readonly string[],
  { actions, called } = recorder(),
  run = runCli,
  startedAs = ['/app/dist/keyferry.cjs', 'node'],
): Promise<Result> {
  const written = { stdout: '', stderr: '' };
  const context: CliContext = {
    actions,
    startedAs,
    version: '1.2.3',
    surroundings: { env: {}, hostname: 'host', uniqueId: 'u1' },
    stdout: (text) => void (written.stdout += text),
    stderr: (text) => void (written.stderr += text),
  };
  return { code: await run(context, argv), ...written, called };
}

const onlyMirrors: Actions = { run: () => Promise.resolve(0), mirrors: () => Promise.resolve(0) };

describe('help and version', () => {
  it('prints the version', async () => {
    for (const flag of ['--version', '-V']) {
      const { code, stdout, stderr } = await cli([flag]);
      assert.deepEqual([code, stdout, stderr], [0, '1.2.3\n', '']);
    }
  });

  it('lists the commands that have an action, and only those', async () => {
    const all = await cli(['--help']);
    assert.equal(all.code, 0);
    for (const name of [...DAEMONS, 'crds', 'status', 'plan', 'demo']) {
      assert.match(all.stdout, new RegExp(`^ {2}${name}\\b`, 'm'));
    }
    assert.match(all.stdout, /Exit codes: 0 done, 1 failed, 2 usage; of plan 3: something would be lost or refused\./);
    const some = await cli(['--help'], { actions: onlyMirrors, called: [] });
    const commands = [...some.stdout.matchAll(/^ {2}([a-z][\w-]*)/gm)].map(([, name]) => name);
    assert.deepEqual(commands, ['run', 'mirrors', 'help']);
  });

  it('explains each daemon with flags, defaults and examples, however help is asked for', async () => {
    for (const name of DAEMONS) {
      const { code, stdout, stderr, called } = await cli([name, '--help']);
      assert.deepEqual([code, stderr, called], [0, '', []], name);
      assert.match(stdout, new RegExp(`^Usage: keyferry ${name} `));
      assert.match(stdout, /--kubeconfig <path>/);
      assert.match(stdout, /--leader-elect-lease-duration <duration>[^-]*\(default: 15s\)/);
      assert.match(stdout, /--log-level <debug\|info\|warn\|error>[^-]*\(default: info\)/);
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

  it('shows under run only the flags of systems that are there', async () => {
    const all = await cli(['run', '--help']);
    assert.match(all.stdout, /--replicator-allow-all/);
    assert.match(all.stdout, /which of mirrors, replicator/);
    const some = await cli(['run', '--help'], { actions: onlyMirrors, called: [] });
    assert.match(some.stdout, /--mirrors-regex <full\|search>/);
    assert.doesNotMatch(some.stdout, /replicator|syncsecret|generator/);
  });

  it('gives an example of every option of status and plan', async () => {
    for (const name of ['status', 'plan']) {
      const { stdout } = await cli([name, '--help']);
      const [options = '', examples = ''] = stdout.split('Examples:');
      const names = [...options.matchAll(/^ {2}(?:(-\w), )?(--[\w-]+)/gm)].filter(([, , long]) => long !== '--help');
      assert.ok(names.length > 8);
      for (const [, short, long] of names) {
        const isShown = [short, long].some((flag) => flag !== undefined && examples.includes(` ${flag}`));
        assert.ok(isShown, `${long} of ${name}`);
      }
    }
  });

  it('explains the short commands', async () => {
    for (const [name, text] of [
      ['crds', /keyferry crds \| kubectl apply --server-side -f -/],
      ['status', /-o, --output <format>[^-]*\(choices: "table", "json", "yaml", default:\s+"table"\)/],
      ['plan', /Usage: keyferry plan \[options\] <files\.\.\.>/],
      ['demo', /--once/],
    ] as const) {
      const { code, stdout } = await cli([name, '--help']);
      assert.equal(code, 0);
      assert.match(stdout, text);
    }
  });
});

describe('exit codes', () => {
  it('are those of the action', async () => {
    for (const code of [0, 1, 7]) {
      for (const argv of [['run'], ['crds'], ['plan', 'a.yaml']]) {
        assert.equal((await cli(argv, recorder(code))).code, code);
      }
    }
  });

  it('are 2 for a command line that cannot be meant', async () => {
    for (const [argv, message] of [
      [[], /Usage: keyferry/],
      [['nope'], /unknown command 'nope'/],
      [['statos'], /Did you mean status\?/],
      [['--nope'], /unknown option '--nope'/],
      [['status', '--nope'], /unknown option '--nope'/],
      [['status', '-o', 'xml'], /argument 'xml' is invalid\. Allowed choices are table, json, yaml/],
      [['status', 'x'], /too many arguments/],
      [['plan'], /missing required argument 'files'/],
      [['run', '--nope'], /^keyferry run: unknown flag --nope\nTry `keyferry run --help`\.\n$/],
      [['run', 'x'], /^keyferry run: unexpected argument "x"\n/],
      [['mirrors', '-metrics-bind-address', 'x'], /^keyferry mirrors: --metrics-bind-address: bad value "x": must be/],
      [['replicator', '--resync-period=soon'], /^keyferry replicator: --resync-period: bad value "soon": must be/],
      [['syncsecret-ccm'], /^keyferry syncsecret-ccm: --cluster-name is required\n/],
    ] as const) {
      const { code, stdout, stderr, called } = await cli(argv);
      assert.deepEqual([code, stdout, called], [2, '', []], argv.join(' '));
      assert.match(stderr, message);
    }
  });

  it('are 1 for an action that throws, with a message and no stack; 2 if it throws a UsageError', async () => {
    const cause = new Error('connect ECONNREFUSED 127.0.0.1:1');
    const failing = { status: () => Promise.reject(new Error('the cluster cannot be reached', { cause })) };
    const failed = await cli(['status'], { actions: failing, called: [] });
    assert.equal(failed.code, 1);
    assert.equal(
      failed.stderr,
      'keyferry status: the cluster cannot be reached (Error: connect ECONNREFUSED 127.0.0.1:1)\n',
    );
    const usage = { plan: () => Promise.reject(new UsageError('a.yaml: no such file')) };
    const refused = await cli(['plan', 'a.yaml'], { actions: usage, called: [] });
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /^keyferry plan: a\.yaml: no such file\n/);
  });

  it('are 2 for a command that this build does not have', async () => {
    const { code, stderr } = await cli(['replicator', '-allow-all'], { actions: onlyMirrors, called: [] });
    assert.equal(code, 2);
    assert.match(stderr, /^keyferry: the system replicator is not in this version of Keyferry\n/);
  });
});

describe('what the actions get', () => {
  const nowhere = { kubeconfig: undefined, context: undefined };

  it('is the options of the short commands', async () => {
    const replicator = {
      annotationsPrefix: 'k8s-replicator',
      allowAll: false,
      ignoreUnknown: false,
      runReplicators: ['secret', 'configmap'],
    };
    const everything = { namespace: undefined, regexMode: 'full', failed: false };
    const plain = { regexMode: 'full', recursive: false, all: false };
    for (const [argv, expected] of [
      [['crds'], ['crds', undefined]],
      [['status'], ['status', { ...nowhere, ...everything, output: 'table', replicator }]],
      [
        [
          'status',
          '--replicator-annotations-prefix=my.org/',
          '--replicator-allow-all',
          '--replicator-ignore-unknown',
          '--replicator-run-replicators=ConfigMap',
        ],
        [
          'status',
          {
            ...nowhere,
            ...everything,
            output: 'table',
            replicator: {
              annotationsPrefix: 'my.org',
              allowAll: true,
              ignoreUnknown: true,
              runReplicators: ['configmap'],
            },
          },
        ],
      ],
      [
        ['status', '-n', 'a', '-ojson'],
        ['status', { ...nowhere, ...everything, namespace: 'a', output: 'json', replicator }],
      ],
      [
        ['status', '--kubeconfig', 'k', '--context=c', '--namespace=a', '--output=json'],
        ['status', { ...everything, kubeconfig: 'k', context: 'c', namespace: 'a', output: 'json', replicator }],
      ],
      [
        ['plan', 'a', '-', '--kubeconfig=k'],
        ['plan', { ...nowhere, ...plain, kubeconfig: 'k', files: ['a', '-'], output: 'table', replicator }],
      ],
      [
        ['plan', '-R', '--all', '--mirrors-regex=search', 'a', '-oyaml'],
        [
          'plan',
          { ...nowhere, files: ['a'], output: 'yaml', regexMode: 'search', recursive: true, all: true, replicator },
        ],
      ],
      [
        ['status', '-n', 'a', '-A', '--failed', '--mirrors-regex', 'search'],
        ['status', { ...nowhere, ...everything, output: 'table', regexMode: 'search', failed: true, replicator }],
      ],
      [['demo'], ['demo', { ...nowhere, once: false }]],
      [
        ['demo', '--once', '--kubeconfig', 'k'],
        ['demo', { ...nowhere, kubeconfig: 'k', once: true }],
      ],
    ] as const) {
      const { code, stderr, called } = await cli(argv);
      assert.deepEqual([code, stderr, called], [0, '', expected], argv.join(' '));
    }
  });

  it("is a daemon's Config, the same with the library and without it", async () => {
    for (const [argv, check] of [
      [['run', '--controllers=mirrors', '--mirrors-regex=search'], (c: Config) => c.mirrors.regexMode === 'search'],
      [['run'], (c: Config) => c.controllers.length === CONTROLLERS.length - 1],
      [['mirrors', '-leader-elect', '-kubeconfig', '-V'], (c: Config) => c.kubeconfig === '-V'],
      [['mirrors', '--zap-devel=true', '--leader-elect=false'], (c: Config) => c.logLevel === 'debug'],
      [['replicator', '-allow-all'], (c: Config) => c.replicator.allowAll],
      [['syncsecret-ccm', '--cluster-name', 'a'], (c: Config) => c.syncsecret.clusterName === 'a'],
      [['syncsecret-manager', '--debug'], (c: Config) => c.logLevel === 'debug'],
      [['generator', '--all'], (c: Config) => c.generator.all],
    ] as const) {
      const fast = await cli(argv);
      const slow = await cli(argv, recorder(), runProgram);
      assert.deepEqual([fast.code, fast.stderr], [0, '']);
      assert.equal(fast.called[0], argv[0]);
      assert.ok(check(fast.called[1] as Config), argv.join(' '));
      assert.deepEqual(slow, fast);
    }
  });
});

describe("in the place of an original's program", () => {
  const name = (path: string, argv: readonly string[], found = recorder()): Promise<Result> =>
    cli(argv, found, runCli, [path, 'node']);

  it('a link with its name behaves as the system, with its flags or without', async () => {
    const chart = ['--leader-elect', '--health-probe-bind-address=:8081', '--metrics-bind-address=127.0.0.1:8080'];
    for (const [path, argv, system] of [
      ['/manager', chart, 'mirrors'],
      ['/manager', [], 'mirrors'],
      ['/usr/local/bin/manager', ['--zap-devel=false'], 'mirrors'],
      ['/k8s-replicator', [], 'replicator'],
      ['/k8s-replicator', ['--annotations-prefix', 'x.example.com', '--allow-all'], 'replicator'],
      ['/ccm', ['--cluster-name=a'], 'syncsecret-ccm'],
      ['/kubelb', ['--debug=false'], 'syncsecret-manager'],
    ] as const) {
      const { code, stderr, called } = await name(path, argv);
      assert.deepEqual([code, stderr, called[0]], [0, '', system], path);
      assert.deepEqual(called, (await cli([system, ...argv])).called, 'as the command with these flags');
    }
  });

  it('the name of the process counts as well, for what starts node under another name', async () => {
    const { called } = await cli(['--leader-elect'], recorder(), runCli, ['/app/dist/keyferry.cjs', 'k8s-replicator']);
    assert.equal(called[0], 'replicator');
  });

  it("a name like an object's member is no original", async () => {
    assert.match((await name('/constructor', [])).stderr, /Usage: keyferry/);
  });

  it('help and errors are those of the command', async () => {
    assert.match((await name('/manager', ['--help'])).stdout, /^Usage: keyferry mirrors /);
    const { code, stderr } = await name('/manager', ['--nope']);
    assert.deepEqual([code, stderr], [2, 'keyferry mirrors: unknown flag --nope\nTry `keyferry mirrors --help`.\n']);
  });

  it('its flags alone say which system it is', async () => {
    for (const [argv, system] of [
      [['--leader-elect'], 'mirrors'],
      [['--health-probe-bind-address=:8081', '-metrics-bind-address', ':8080', '--leader-elect'], 'mirrors'],
      [['--leader-elect', '--mirrors-regex=search'], 'mirrors'],
      [['--zap-log-level=debug', '--metrics-bind-address=:8080'], 'mirrors'],
      [['-allow-all', '-resync-period', '1h'], 'replicator'],
      [['--status-address=:9102'], 'replicator'],
      [['--kubeconfig', 'k', '--create-with-labels='], 'replicator'],
      // As the charts of KubeLB write them.
      [
        [
          '--enable-leader-election=true',
          '--node-address-type=ExternalIP',
          '--use-loadbalancer-class=false',
          '--enable-gateway-api=true',
          '--cluster-name=a',
          '--zap-log-level=info',
        ],
        'syncsecret-ccm',
      ],
      [
        ['--enable-leader-election=true', '--enable-tenant-migration=true', '--debug=false', '--zap-log-level=info'],
        'syncsecret-manager',
      ],
    ] as const) {
      const { code, stderr, called } = await cli(argv);
      assert.deepEqual([code, stderr, called[0]], [0, '', system], argv.join(' '));
    }
  });

  it('a flag that the system lacks is named by the system that has the others', async () => {
    const { code, stderr } = await cli(['--annotations-prefix=a.example.com', '--nope']);
    assert.deepEqual([code, stderr.split('\n')[0]], [2, 'keyferry replicator: unknown flag --nope']);
  });

  it('flags that fit several systems ask for a name, and nothing is started', async () => {
    for (const argv of [['--health-probe-bind-address=:8081'], ['--kubeconfig', 'k'], ['--kubeconfig=k', 'status']]) {
      const { code, stderr, called } = await cli(argv);
      assert.deepEqual([code, called], [2, []], argv.join(' '));
      assert.match(stderr, /put its name before them, one of mirrors, syncsecret-ccm, syncsecret-manager\n/);
    }
  });

  it('a system that this version lacks is refused by its name, also where another one has the flags', async () => {
    const ccm = ['--enable-leader-election=true', '--cluster-name=a'];
    const missing = { actions: onlyMirrors, called: [] };
    for (const result of [await name('/ccm', ccm, missing), await cli(ccm, missing)]) {
      assert.equal(result.code, 2);
      assert.match(result.stderr, /^keyferry: the system syncsecret-ccm is not in this version of Keyferry\n/);
    }
  });
});
