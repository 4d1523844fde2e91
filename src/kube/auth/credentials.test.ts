/** Tests credentials that change at run time: Keyferry reads replaced files and runs plugins again. */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { type Clock, systemClock } from '../../runtime/clock.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { RenewingCredentials, FileValue } from './credentials.ts';
import { CredentialError } from '../errors.ts';
import { ExecPlugin, type ExecSpec, parseExecCredential } from './exec-credential.ts';
import { inClusterConnection, loadKubeconfig } from './kubeconfig.ts';

const NO_TLS = { ca: undefined, cert: undefined, key: undefined, servername: undefined, rejectUnauthorized: true };
const V1 = 'client.authentication.k8s.io/v1';
let dir = '';
let clock = new ManualClock();
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'keyferry-credentials-'));
  clock = new ManualClock();
});
afterEach(() => rmSync(dir, { recursive: true }));

const at = (name: string): string => join(dir, name);

/** Replaces a file in one step, as the kubelet does, so that no reader sees a part of it. */
function put(name: string, content: string): void {
  writeFileSync(at(`${name}.new`), content);
  renameSync(at(`${name}.new`), at(name));
}

describe('in a Pod', () => {
  const env = { KUBERNETES_SERVICE_HOST: '10.0.0.1', KUBERNETES_SERVICE_PORT: '443' };

  test('in a Pod, server, namespace, token and CA come from the service account', async () => {
    put('token', 'one\n');
    put('ca.crt', 'CA');
    put('namespace', 'keyferry');
    const connection = await inClusterConnection({ env, dir, clock });
    assert.equal(connection?.server.href, 'https://10.0.0.1/');
    assert.equal(connection.namespace, 'keyferry');
    assert.deepEqual(await connection.credentials.headers(), { Authorization: 'Bearer one' });
    assert.deepEqual(await connection.credentials.tls(), { ...NO_TLS, ca: Buffer.from('CA') });
  });

  test('in a Pod, the token is read again after a minute, and immediately after a refusal', async () => {
    put('token', 'one');
    const connection = await inClusterConnection({ env, dir, clock });
    const headers = async (): Promise<unknown> => connection?.credentials.headers();
    const first = await headers();
    put('token', 'two');
    await clock.advance(59_000);
    assert.equal(await headers(), first);
    await clock.advance(1000);
    assert.deepEqual(await headers(), { Authorization: 'Bearer two' });
    put('token', 'three');
    connection?.credentials.invalidate();
    assert.deepEqual(await headers(), { Authorization: 'Bearer three' });
  });

  test('outside of a Pod there is no connection; in a Pod without a token file, a call fails and its error names the file', async () => {
    assert.equal(await inClusterConnection({ env: {}, dir }), undefined);
    const connection = await inClusterConnection({ env, dir, clock });
    await assert.rejects(async () => connection?.credentials.headers(), {
      name: 'CredentialError',
      message: `in-cluster token: cannot read ${at('token')}: ENOENT`,
    });
  });
});

test('if a credential file vanishes, its last content is used; if its bytes do not change, the Buffer stays the same', async () => {
  put('ca', 'CA');
  const value = new FileValue(at('ca'), 'field', clock);
  const first = await value.get();
  assert.equal(await value.get(), first);
  unlinkSync(at('ca'));
  await clock.advance(60_000);
  assert.equal(await value.get(), first);
  put('ca', 'CA');
  await clock.advance(5000);
  assert.equal(await value.get(), first);
  put('ca', 'NEW');
  value.invalidate();
  const [a, b] = await Promise.all([value.get(), value.get()]);
  assert.equal(a, b);
  assert.equal(a.toString(), 'NEW');
});

test('the TLS material becomes a new object only after one of its files has changed', async () => {
  for (const name of ['ca', 'cert', 'key']) put(name, name);
  const file = (name: string): FileValue => new FileValue(at(name), name, clock);
  const credentials = new RenewingCredentials({ ca: file('ca'), cert: file('cert'), key: file('key') });
  const first = await credentials.tls();
  await clock.advance(60_000);
  assert.equal(await credentials.tls(), first);
  put('cert', 'renewed');
  await clock.advance(60_000);
  const second = await credentials.tls();
  assert.notEqual(second, first);
  assert.equal(String(second.cert), 'renewed');
});

/** A plugin that records each run, and prints the output of the shell command `answer`. */
function plugin(answer: string, more: Partial<ExecSpec> = {}): ExecSpec {
  writeFileSync(at('plugin.sh'), `#!/bin/sh\necho run >> ${at('runs')}\n${answer}\n`, { mode: 0o755 });
  return {
    field: 'users[name=u].user.exec',
    apiVersion: V1,
    command: at('plugin.sh'),
    args: [],
    env: process.env,
    ...more,
  };
}

const runs = (): number => (existsSync(at('runs')) ? readFileSync(at('runs'), 'utf8').trim().split('\n').length : 0);

function answer(status: object): string {
  return JSON.stringify({ apiVersion: V1, kind: 'ExecCredential', status });
}

describe('an exec plugin', () => {
  test('an exec plugin runs one time for concurrent calls, and again shortly before its credential expires', async () => {
    const expirationTimestamp = new Date(clock.now() + 3_600_000).toISOString();
    put('answer', answer({ token: 'one', expirationTimestamp }));
    const credentials = new RenewingCredentials({ plugin: new ExecPlugin(plugin(`cat ${at('answer')}`), clock) });
    const all = await Promise.all([credentials.headers(), credentials.headers(), credentials.tls()]);
    assert.deepEqual(all[1], { Authorization: 'Bearer one' });
    assert.equal(runs(), 1);
    await clock.advance(3_569_000);
    assert.equal(await credentials.headers(), all[0]);
    put('answer', answer({ token: 'two' }));
    await clock.advance(1000);
    assert.deepEqual(await credentials.headers(), { Authorization: 'Bearer two' });
    await clock.advance(86_400_000);
    assert.deepEqual(await credentials.headers(), { Authorization: 'Bearer two' });
    assert.equal(runs(), 2);
  });

  test('after a refusal an exec plugin runs again, but at most every 5 s', async () => {
    const exec = new ExecPlugin(plugin(`echo '${answer({ token: 'same' })}'`), clock);
    const first = await exec.get();
    exec.invalidate();
    assert.equal(await exec.get(), first);
    assert.equal(runs(), 1);
    await clock.advance(5000);
    assert.equal(await exec.get(), first, 'the same credential stays the same object');
    assert.equal(runs(), 2);
  });

  test('if an exec plugin returns a client certificate, the TLS material has it', async () => {
    const status = { clientCertificateData: 'CERT', clientKeyData: 'KEY' };
    const credentials = new RenewingCredentials({ plugin: new ExecPlugin(plugin(`echo '${answer(status)}'`), clock) });
    assert.deepEqual(await credentials.headers(), {});
    assert.deepEqual(await credentials.tls(), { ...NO_TLS, cert: 'CERT', key: 'KEY' });
  });

  test('if an exec plugin fails, the error has its name, stderr and install hint, and the plugin does not run again for 5 s', async () => {
    const spec = plugin(`echo s3cret; echo 'please log in' >&2; exit 3`, { installHint: 'See https://example.com' });
    const exec = new ExecPlugin(spec, clock);
    const expected = {
      name: 'CredentialError',
      message: `users[name=u].user.exec: "${spec.command}" ended with code 3: please log in\nSee https://example.com`,
    };
    await assert.rejects(async () => exec.get(), expected);
    await assert.rejects(async () => exec.get(), expected);
    assert.equal(runs(), 1);
    await clock.advance(5000);
    await assert.rejects(async () => exec.get(), expected);
    assert.equal(runs(), 2);
  });

  test('if an exec plugin does not exist, hangs or prints too much, the call fails with an error', async () => {
    /** A clock on which the time limit of a plugin ends after 50 ms. */
    const hurried = {
      ...systemClock,
      setTimeout: (run: () => void, ms: number) => systemClock.setTimeout(run, ms / 600),
    };
    const get = (spec: ExecSpec, clock: Clock = systemClock): Promise<unknown> =>
      (async () => new ExecPlugin(spec, clock).get())();
    await assert.rejects(
      get(plugin('', { command: 'keyferry-no-such-plugin' })),
      /"keyferry-no-such-plugin" was not found/u,
    );
    await assert.rejects(get(plugin('exec sleep 60'), hurried), /gave no answer within 30000 ms/u);
    await assert.rejects(get(plugin('exec head -c 2000000 /dev/zero')), /printed more than 1048576 bytes/u);
  });

  /** Runs a plugin that prints its process id. On its clock the limit of 30 s ends after about 2 s. */
  const runLong = async (script: string): Promise<{ error: unknown; pid: number }> => {
    const run = plugin(`echo $$ > '${at('pid')}'; ${script}`);
    const shortened: Clock = { ...systemClock, setTimeout: (then, ms) => systemClock.setTimeout(then, ms / 15) };
    const error: unknown = await new ExecPlugin(run, shortened).get().catch((error: unknown) => error);
    return { error, pid: Number(readFileSync(at('pid'), 'utf8')) };
  };

  test('if an exec plugin leaves a process that keeps its output open, the call fails at the time limit', async () => {
    const { error } = await runLong(`(exec sleep 15) & echo '${answer({ token: 't' })}'`);
    assert.match(String(error), /gave no answer within 30000 ms/u);
  });

  test('at the time limit an exec plugin is killed, also if it ignores SIGTERM', async () => {
    const { error, pid } = await runLong(`trap '' TERM; while :; do sleep 0.1; done`);
    assert.match(String(error), /gave no answer within 30000 ms/u);
    const isGone = (): boolean => !existsSync(`/proc/${pid}`);
    await waitFor(isGone, { message: 'the end of the plugin' });
  });

  test('an exec plugin may print more than 1 MiB to stderr', async () => {
    const run = plugin(`head -c 2000000 /dev/zero >&2; echo '${answer({ token: 't' })}'`);
    assert.equal((await new ExecPlugin(run, systemClock).get()).token, 't');
  });

  test('if the output of an exec plugin is malformed, the error does not quote it', () => {
    const table: readonly [unknown, RegExp][] = [
      ['s3cret', /it is not JSON/u],
      [{ kind: 'Secret' }, /kind is not/u],
      [{ kind: 'ExecCredential', apiVersion: 'client.authentication.k8s.io/v1beta1' }, /apiVersion is not/u],
      [{ kind: 'ExecCredential', apiVersion: V1 }, /status is missing/u],
      [{ kind: 'ExecCredential', apiVersion: V1, status: {} }, /neither a token nor/u],
      [{ kind: 'ExecCredential', apiVersion: V1, status: { token: 5 } }, /status\.token is not a string/u],
      [
        { kind: 'ExecCredential', apiVersion: V1, status: { token: 's3cret\nX: 1' } },
        /characters that are not allowed in a token/u,
      ],
      [{ kind: 'ExecCredential', apiVersion: V1, status: { clientKeyData: 's3cret' } }, /only one of/u],
      [
        { kind: 'ExecCredential', apiVersion: V1, status: { token: 's3cret', expirationTimestamp: 'x' } },
        /not a time/u,
      ],
    ];
    for (const [output, expected] of table) {
      const text = typeof output === 'string' ? output : JSON.stringify(output);
      assert.throws(
        () => parseExecCredential(text, { field: 'f', command: 'c', apiVersion: V1 }),
        (error: unknown) => {
          assert.ok(error instanceof CredentialError);
          assert.match(error.message, expected);
          assert.doesNotMatch(`${error.message}${String(error.cause)}`, /s3cret/u);
          return true;
        },
      );
    }
  });

  test('an exec plugin gets the arguments, the environment and the cluster of the kubeconfig', async () => {
    const script = plugin(
      `echo "$1 $MARK" > ${at('seen')}; echo "$KUBERNETES_EXEC_INFO" >> ${at('seen')}; echo '${answer({ token: 't' })}'`,
    );
    appendFileSync(
      at('config'),
      `
current-context: x
contexts: [{name: x, context: {cluster: c, user: u}}]
clusters:
- name: c
  cluster:
    server: https://a
    certificate-authority: ca.crt
    tls-server-name: n
    extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: z}}]
users:
- name: u
  user:
    exec: {apiVersion: ${V1}, command: ./plugin.sh, args: [one], env: [{name: MARK, value: two}], interactiveMode: IfAvailable, provideClusterInfo: true}
`,
    );
    put('ca.crt', 'CA');
    assert.ok(script.command.endsWith('plugin.sh'));
    const { credentials } = await loadKubeconfig({ path: at('config'), env: process.env });
    assert.deepEqual(await credentials.headers(), { Authorization: 'Bearer t' });
    const [line, info] = readFileSync(at('seen'), 'utf8').split('\n');
    assert.equal(line, 'one two');
    assert.deepEqual(JSON.parse(info ?? ''), {
      apiVersion: V1,
      kind: 'ExecCredential',
      spec: {
        interactive: false,
        cluster: {
          server: 'https://a',
          'tls-server-name': 'n',
          'certificate-authority-data': 'Q0E=',
          config: { audience: 'z' },
        },
      },
    });
  });
});
