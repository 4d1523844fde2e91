/** The demo as a user runs it: what it shows, and that nothing of it is left. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';

import { type ControlPlane, startControlPlane } from '../servers/control-plane.ts';
import { findPostgres } from '../servers/postgres.ts';
import { waitFor } from '../support/wait-for.ts';

const PROGRAM = path.join(import.meta.dirname, '../../bin/keyferry.cjs');
const TIMEOUT_MS = 60_000;

/** One run of the demo, with a temporary folder of its own and a mark in the environment of every process that it starts. */
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

  /** @param command that starts it: the program itself, or npm */
  static async start(args: readonly string[], command = [process.execPath, PROGRAM, 'demo']): Promise<DemoRun> {
    const folder = await mkdtemp(path.join(tmpdir(), 'keyferry-demo-test-'));
    // PostgreSQL, which runs as somebody else where we are root, has its folder in it.
    await chmod(folder, 0o755);
    const mark = randomUUID();
    const [program = '', ...first] = command;
    const child = spawn(program, [...first, ...args], {
      // npm keeps its compiled code in the temporary folder.
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

  /** No process that it started runs, and its temporary folder is empty. */
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
      // Ended meanwhile, or another user's: not one of ours.
      void error;
    }
  }
  return found;
}

describe('keyferry demo', { skip: process.platform === 'linux' ? false : 'looks into /proc' }, () => {
  it('walks through the scenarios on servers of its own and leaves nothing', async () => {
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
      /✓ project-b-main\/mysecret +follows \d+ ms after the change\n/,
      /✓ project-a-main\/mysecret +repaired \d+ ms after the edit\n/,
      /✓ project-b-main\/mysecret +back \d+ ms after it was deleted\n/,
      /NAMESPACE +NAME +TYPE +DATA +AGE\n +default +mysecret +Opaque +2 +\d+s\n\n +✓ only the source is left/,
      /local-database-credentials +Opaque +0 +\d+s\n\n +Denied: source default\/database-credentials does not exist or does not allow/,
      /local-database-credentials +Opaque +3 +\d+s\n\n +✓ team-a\/local-database-credentials +filled .+ after it was allowed\n/,
      /✓ team-a\/admin-password +.+ after its source\n/,
      /✓ team-a\/local-database-credentials +follows .+ after the change\n/,
      /\n +the-random-password-of-the-first-release\n +✓ team-a\/admin-password +stays as it was/,
      /✓ jx-staging\/tls-example-com +.+ after its source\n/,
      / +jx-preview-7 +tls-example-com +kubernetes.io\/tls +2 .*\n +jx-staging +tls-example-com .*\n +jx +tls-example-com/,
      /✓ jx-preview-7\/tls-example-com +.+ after its namespace was created\n/,
      /✓ two Vaults v\d+\.\d+\.\d+ +at http:\/\/127\.0\.0\.1:\d+ and http:\/\/127\.0\.0\.1:\d+/,
      /myvaultsecret-mirror +vault +myvaultsecret-sync +namespaces +delete +2 +Active +20\S+Z +\d+s +True\n/,
      /✓ project-c-main\/myvaultsecret-sync +.+ after the mirror was applied\n/,
      /✓ project-c-next\/myvaultsecret-sync +follows .+ after the change/,
      /\n +\[1,\["id","key"\]\]\n\n +✓ secret\/deploy-key +written .+ after the Secret was created\n/,
      /\n +\[2,\["id","key"\]\]\n\n +✓ secret\/deploy-key +follows .+ after the change\n/,
      /\n +\[1,\["password","username"\]\]\n\n +✓ secret\/myvaultsecret in the second Vault/,
      /\n +\[2,\["note","password","username"\]\]\n\n +✓ secret\/myvaultsecret in the second Vault +follows/,
      ...('missing' in findPostgres()
        ? [/skipped: PostgreSQL is not installed/]
        : [
            /✓ project-c-next\/somedb-creds +.+; the database lets them in\n +✓ users that Vault made +1\n/,
            /Normal +VaultLeaseRenew +secretmirror\/somedb-creds +Renewed lease successfully\n/,
            /✓ the lease is renewed, the credentials stay/,
            /✓ the lease is revoked, the database user gone/,
          ]),
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

  it('keeps running until it is interrupted, with a kubeconfig that works', async () => {
    const run = await DemoRun.start([]);
    await run.shows('Ctrl-C stops everything.');
    const file = /kubeconfig +(\S+)\n/.exec(run.output)?.[1] ?? '';
    assert.match(await readFile(file, 'utf8'), /current-context/);
    run.signal('SIGINT');
    // As a terminal and npm together do it.
    run.signal('SIGINT');
    assert.equal(await run.exit(), 0, run.output);
    assert.match(run.output, /everything is stopped\n$/);
    await run.leavesNothing();
  });

  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    it(`ends when npm alone gets ${signal}, and not its children`, async () => {
      const run = await DemoRun.start([], ['npm', 'run', 'demo']);
      await run.shows('etcd v');
      run.signal(signal);
      await run.exit();
      await run.shows('everything is stopped');
      await run.leavesNothing();
    });
  }

  describe('on a cluster that is there', () => {
    let plane: ControlPlane;
    before(async () => {
      plane = await startControlPlane();
    });
    after(() => plane.stop());

    it('removes all that it made', async () => {
      const run = await DemoRun.start(['--once', '--kubeconfig', plane.kubeconfigPath]);
      assert.equal(await run.exit(), 0, run.output);
      assert.match(run.output, /✓ project-a-main\/mysecret +\d+ ms after its namespace was created\n/);
      assert.match(run.output, /skipped: its Vaults listen on this machine only/);
      assert.match(run.output, /✓ what the demo made in this cluster is removed\n/);
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

    it('refuses where it would touch what is not its own', async () => {
      const name = 'project-a-theirs';
      await plane.api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
      const run = await DemoRun.start(['--once', '--kubeconfig', plane.kubeconfigPath]);
      assert.equal(await run.exit(), 1);
      assert.match(run.output, /would copy into namespaces that are there already: project-a-theirs/);
      await run.leavesNothing();
    });
  });

  it('says what is wrong with a kubeconfig', async () => {
    const run = await DemoRun.start(['--kubeconfig', '/nowhere/kubeconfig']);
    assert.equal(await run.exit(), 1);
    assert.match(run.output, /\/nowhere\/kubeconfig/);
    await run.leavesNothing();
  });
});
