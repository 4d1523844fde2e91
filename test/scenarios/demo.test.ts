/** Runs the demo as a user does, and checks its output and that it leaves no process and no file. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';

import { type ControlPlane, startControlPlane } from '../servers/control-plane.ts';
import { findPostgres } from '../servers/postgres.ts';
import { longIt } from '../support/long.ts';
import { waitFor } from '../support/wait-for.ts';

const PROGRAM = path.join(import.meta.dirname, '../../demo/main.ts');
const LAUNCHER = path.join(import.meta.dirname, '../../bin/keyferry.cjs');
/**
 * Time limit for a demo that hangs, ms. All examples together take 30 s, and several times as long on a busy machine.
 */
const TIMEOUT_MS = 300_000;

/** A run of the demo in its own temporary folder. A variable in the environment marks all processes of this run. */
class DemoRun {
  readonly #child: ChildProcess;
  readonly #folder: string;
  readonly #mark: string;
  readonly #exit: Promise<number | null>;
  output = '';

  private constructor(child: ChildProcess, folder: string, mark: string) {
    this.#child = child;
    this.#folder = folder;
    this.#mark = mark;
    child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (this.output += text));
    this.#exit = new Promise((resolve) => child.once('close', resolve));
  }

  /** Starts the demo. @param command runs the demo: by its own file, by npm, or by the launcher of Keyferry */
  static async start(args: readonly string[], command = [process.execPath, PROGRAM]): Promise<DemoRun> {
    const folder = await mkdtemp(path.join(tmpdir(), 'keyferry-demo-test-'));
    // If the test runs as root, PostgreSQL runs as another user, and must be able to read its own folder in this
    // folder.
    await chmod(folder, 0o755);
    const mark = randomUUID();
    const [program = '', ...first] = command;
    const child = spawn(program, [...first, ...args], {
      // NODE_DISABLE_COMPILE_CACHE: without it, npm would keep compiled code in the temporary folder.
      env: { ...process.env, TMPDIR: folder, KEYFERRY_DEMO_MARK: mark, NODE_DISABLE_COMPILE_CACHE: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    return new DemoRun(child, folder, mark);
  }

  async shows(text: string): Promise<void> {
    await waitFor(() => this.output.includes(text), {
      timeoutMs: TIMEOUT_MS,
      message: () => `"${text}" in the output:\n${this.output}`,
    });
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  async exit(): Promise<number | null> {
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), TIMEOUT_MS);
    const code = await this.#exit;
    clearTimeout(timer);
    return code;
  }

  /** Waits until no process of this run exists and its temporary folder is empty. */
  async leavesNothing(): Promise<void> {
    await waitFor(async () => (await processesWith(this.#mark)).length === 0, {
      message: `no process of the demo to be left`,
    });
    await waitFor(async () => (await readdir(this.#folder)).length === 0, {
      message: 'the temporary folder to be empty',
    });
    await rm(this.#folder, { recursive: true });
  }
}

async function processesWith(mark: string): Promise<string[]> {
  const found: string[] = [];
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue;
    try {
      if ((await readFile(`/proc/${pid}/environ`, 'utf8')).includes(mark)) found.push(pid);
    } catch (error) {
      // The process has ended meanwhile, or belongs to another user.
      void error;
    }
  }
  return found;
}

describe('npm run demo', { skip: process.platform === 'linux' ? false : 'looks into /proc' }, () => {
  longIt('the demo runs all examples on its own servers, and leaves no process and no file', async () => {
    const run = await DemoRun.start(['--once']);
    assert.equal(await run.exit(), 0, run.output);
    const { output } = run;
    const steps = [
      /kube-apiserver v\d+\.\d+\.\d+/,
      /NAME +SOURCE TYPE +SOURCE NAME +DESTINATION TYPE +DELETE POLICY +POLL PERIOD +MIRROR STATUS +LAST SYNC TIME +AGE +READY\n/,
      /mysecret-mirror +secret +mysecret +namespaces +delete +180 +Pending +1970-01-01T00:00:00Z +\d+s +False\n/,
      /Pending: secret default\/mysecret not found, waiting to appear\n/,
      /mysecret-mirror +secret +mysecret +namespaces +delete +180 +Active +20\S+Z +\d+s +True\n/,
      /NAMESPACE +NAME +TYPE +DATA +AGE\n +default .*\n +project-a-main +mysecret +Opaque +2 +\d+s\n +project-b-main +mysecret/,
      /✓ project-a-main\/mysecret +\d+ ms after its namespace was created\n/,
      /✓ project-b-main\/mysecret +updated \d+ ms after the change\n/,
      /✓ project-a-main\/mysecret +repaired \d+ ms after the edit\n/,
      /✓ project-b-main\/mysecret +created again \d+ ms after it was deleted\n/,
      /NAMESPACE +NAME +TYPE +DATA +AGE\n +default +mysecret +Opaque +2 +\d+s\n\n +✓ only the source is left/,
      /local-database-credentials +Opaque +0 +\d+s\n\n +Denied: source default\/database-credentials does not exist or does not allow/,
      /local-database-credentials +Opaque +3 +\d+s\n\n +✓ team-a\/local-database-credentials +filled .+ after the source allowed it\n/,
      /✓ team-a\/admin-password +.+ after its source\n/,
      /✓ team-a\/local-database-credentials +updated .+ after the change\n/,
      /\n +the-random-password-of-the-first-release\n +✓ team-a\/admin-password +unchanged/,
      /✓ jx-staging\/tls-example-com +.+ after its source\n/,
      / +jx-preview-7 +tls-example-com +kubernetes.io\/tls +2 .*\n +jx-staging +tls-example-com .*\n +jx +tls-example-com/,
      /✓ jx-preview-7\/tls-example-com +.+ after its namespace was created\n/,
      / +as-config-syncer .*\n +as-mittwald .*\n +as-reflector .*\n\n +✓ shop\/as-reflector +.+ after its source\n/,
      /✓ shop\/as-mittwald +repaired .+ after the edit\n/,
      /✓ two Vault servers v\d+\.\d+\.\d+ +at http:\/\/127\.0\.0\.1:\d+ and http:\/\/127\.0\.0\.1:\d+/,
      /myvaultsecret-mirror +vault +myvaultsecret-sync +namespaces +delete +2 +Active +20\S+Z +\d+s +True\n/,
      /✓ project-c-main\/myvaultsecret-sync +.+ after the mirror was applied\n/,
      /✓ project-c-next\/myvaultsecret-sync +updated .+ after the change/,
      /\n +\[1,\["id","key"\]\]\n\n +✓ secret\/deploy-key +written .+ after the Secret was created\n/,
      /\n +\[2,\["id","key"\]\]\n\n +✓ secret\/deploy-key +updated .+ after the change\n/,
      /\n +\[1,\["password","username"\]\]\n\n +✓ secret\/myvaultsecret in the second Vault/,
      /\n +\[2,\["note","password","username"\]\]\n\n +✓ secret\/myvaultsecret in the second Vault +updated/,
      ...('missing' in findPostgres()
        ? [/skipped: PostgreSQL is not installed/]
        : [
            /✓ project-c-next\/somedb-creds +.+; the login to the database works\n +✓ users created by Vault +1\n/,
            /Normal +VaultLeaseRenew +secretmirror\/somedb-creds +Renewed lease successfully\n/,
            /✓ the lease is renewed, the credentials are unchanged/,
            /✓ the lease is revoked, the database user is deleted/,
          ]),
      /✓ External Secrets Operator v\d+\.\d+\.\d+ and Vault/,
      /postgres .*SecretSynced +True[^\n]*\n[^]*?\[1,\["password"\]\]\n\n +✓ Secret postgres +there .+ after the ExternalSecret\n/,
      /vault kv metadata delete secret\/dev-1\/postgres\n[^]*?✓ secret\/dev-1\/postgres +made again[^\n]*\n +✓ Secret postgres +has the new value/,
      /✓ the page with all copies +\S+demo\.html\n/,
      /What to try next\n/,
    ];
    let rest = output;
    for (const step of steps) {
      const match = step.exec(rest);
      assert.ok(match, `${String(step)} is missing, or out of order, in:\n${output}`);
      rest = rest.slice(match.index + match[0].length);
    }
    assert.ok(!output.includes('\x1b'), 'no colour where it is no terminal');
    await run.leavesNothing();
  });

  longIt('without --once, the demo runs until a signal, and its kubeconfig works', async () => {
    const run = await DemoRun.start([]);
    await run.shows('Ctrl-C stops everything.');
    const file = /^ *kubeconfig +(\S+)$/m.exec(run.output)?.[1] ?? '';
    assert.match(await readFile(file, 'utf8'), /current-context/);
    // The page is there from the beginning, and the address at the end is a new one.
    const pages = [...run.output.matchAll(/^ *(?:its )?page +(http:\S+#code=\S+)$/gm)].map(([, url]) => url ?? '');
    assert.equal(new Set(pages).size, 2, run.output);
    assert.equal((await fetch(pages[1] ?? '')).status, 200);
    assert.ok(run.output.includes(`$ export KUBECONFIG=${file}\n  $ kubectl get secretmirrors -A\n`), run.output);
    run.signal('SIGINT');
    // A terminal sends the signal to all processes, and npm forwards it, so the demo gets it twice.
    run.signal('SIGINT');
    assert.equal(await run.exit(), 0, run.output);
    assert.match(run.output, /everything is stopped\n$/);
    await run.leavesNothing();
  });

  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    longIt(`if only npm receives ${signal}, the demo stops, too`, async () => {
      const run = await DemoRun.start([], ['npm', 'run', 'demo']);
      await run.shows('etcd v');
      run.signal(signal);
      await run.exit();
      await run.shows('everything is stopped');
      await run.leavesNothing();
    });
  }

  describe('npm run demo on an existing cluster', () => {
    let plane: ControlPlane;
    before(async () => {
      plane = await startControlPlane();
    });
    after(() => plane.stop());

    longIt('on an existing cluster, the demo deletes all objects that it created', async () => {
      const run = await DemoRun.start(['--once', '--kubeconfig', plane.kubeconfigPath]);
      assert.equal(await run.exit(), 0, run.output);
      assert.match(run.output, /✓ project-a-main\/mysecret +\d+ ms after its namespace was created\n/);
      assert.match(run.output, /skipped: the Vault servers of the demo listen only on this machine/);
      assert.match(run.output, /✓ deleted all objects of the demo from this cluster\n/);
      await run.leavesNothing();
      for (const name of ['mysecret', 'database-credentials']) {
        assert.equal(await plane.api.find(`/api/v1/namespaces/default/secrets/${name}`), undefined);
      }
      for (const gone of [
        '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/secretmirrors.mirrors.kts.studio',
        '/api/v1/namespaces/project-a-main',
        '/api/v1/namespaces/project-b-main',
        '/api/v1/namespaces/team-a',
        '/api/v1/namespaces/jx',
        '/api/v1/namespaces/jx-staging',
        '/api/v1/namespaces/jx-preview-7',
      ]) {
        assert.equal(await plane.api.find(gone), undefined, `${gone}; it says:\n${run.output}`);
      }
    });

    it('the demo refuses a cluster where it would change existing objects', async () => {
      const name = 'project-a-theirs';
      await plane.api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
      const run = await DemoRun.start(['--once', '--kubeconfig', plane.kubeconfigPath]);
      assert.equal(await run.exit(), 1);
      assert.match(
        run.output,
        /\n\n✗ demo: the demo would copy to existing namespaces: project-a-theirs\n {2}This cluster is as it was before\.\n$/,
      );
      assert.doesNotMatch(run.output, /deleted all objects|namespaces still in deletion/);
      const crd = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/secretmirrors.mirrors.kts.studio';
      // The API server deletes a CRD a moment after its objects.
      await waitFor(async () => (await plane.api.find(crd)) === undefined, { message: 'the CRD to be deleted' });
      await run.leavesNothing();
    });
  });

  it('the demo prints help, and refuses unknown options and unknown parts', async () => {
    for (const [args, code, text] of [
      [['--help'], 0, /^Usage: npm run demo --[^]*--only <parts>[^]*npm run demo -- --only mirrors,vault\n/],
      [['--offline'], 2, /^error: unknown option '--offline'\nTry `npm run demo -- --help`\.\n$/],
      [['--only', 'mirror'], 2, /there is no part "mirror"; the parts are mirrors, replicator/],
    ] as const) {
      const run = await DemoRun.start(args);
      assert.equal(await run.exit(), code, run.output);
      assert.match(run.output, text);
      await run.leavesNothing();
    }
  });

  it('in a checkout, `keyferry demo` starts the demo and passes its options on', async () => {
    const run = await DemoRun.start(['--only', 'nothing'], [process.execPath, LAUNCHER, 'demo']);
    assert.equal(await run.exit(), 2, run.output);
    assert.match(run.output, /there is no part "nothing"/);
    await run.leavesNothing();
  });

  it('if the kubeconfig does not exist, the demo fails and names the file', async () => {
    const run = await DemoRun.start(['--kubeconfig', '/nowhere/kubeconfig']);
    assert.equal(await run.exit(), 1);
    assert.match(run.output, /\/nowhere\/kubeconfig/);
    await run.leavesNothing();
  });
});
