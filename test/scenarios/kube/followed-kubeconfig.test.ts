/**
 * Tests a client whose kubeconfig file changes: the token, certificate or server in it is replaced. The API servers are
 * real.
 */
import assert from 'node:assert/strict';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';

import { followKubeconfig } from '../../../src/kube/auth/followed-kubeconfig.ts';
import { HttpKubeApi } from '../../../src/kube/http.ts';
import { parseJson } from '../../../src/kube/json.ts';
import { Watcher } from '../../../src/kube/watch/watcher.ts';
import { type Clock, systemClock } from '../../../src/runtime/clock.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import type { FaultProxy } from '../../servers/fault-proxy.ts';
import { startFaultProxy } from '../../servers/fault-proxy.ts';
import { kubeconfigYaml, type KubeconfigOptions } from '../../servers/kubeconfig.ts';
import { HeldObjects } from '../../support/held-objects.ts';
import { waitFor } from '../../support/wait-for.ts';

const FLAG = '--other-kubeconfig';
const NEVER_MS = 3_600_000;
const SHORT_MS = 50;

/** The time between two checks of the file is 2 s. On this clock it is another. */
function checking(intervalMs: number): Clock {
  return {
    ...systemClock,
    setTimeout: (run, ms, options) => systemClock.setTimeout(run, ms === 2000 ? intervalMs : ms, options),
  };
}

let plane: ControlPlane;
let folder: string;
let count = 0;

before(async () => {
  plane = await startControlPlane({ controllerManager: false, users: [{ name: 'alice' }, { name: 'bob' }] });
  folder = path.join(plane.folder, 'followed');
  await mkdir(folder);
});
after(() => plane.stop());

interface Followed extends AsyncDisposable {
  readonly api: HttpKubeApi;
  readonly file: string;
  readonly problems: string[];
  readonly replaced: string[];
  /** Replaces the content of the file. */
  readonly replace: (options: Partial<KubeconfigOptions>) => Promise<void>;
}

/** Replaces a file in one step, so that a reader never gets a half-written file. */
async function put(file: string, content: string): Promise<void> {
  await writeFile(`${file}.new`, content);
  await rename(`${file}.new`, file);
}

/** Opens a client that follows a new kubeconfig file. @param intervalMs time between two checks of the file */
async function follow(options: Partial<KubeconfigOptions>, intervalMs: number): Promise<Followed> {
  const file = path.join(folder, `config-${(count += 1)}`);
  const replace = async (content: Partial<KubeconfigOptions>): Promise<void> => {
    await put(file, kubeconfigYaml({ server: plane.url, caPem: plane.caPem, ...content }));
  };
  await replace(options);
  const problems: string[] = [];
  const replaced: string[] = [];
  const connection = await followKubeconfig({
    path: file,
    flag: FLAG,
    env: {},
    cluster: 'other',
    onReplaced: () => replaced.push('replaced'),
    onProblem: ({ message }) => problems.push(message),
  });
  const api = new HttpKubeApi(connection, { clock: checking(intervalMs) });
  return {
    api,
    file,
    problems,
    replaced,
    replace,
    [Symbol.asyncDispose]: async () => await api[Symbol.asyncDispose](),
  };
}

async function userOf(api: HttpKubeApi): Promise<string> {
  const body = JSON.stringify({ apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' });
  const answer = await api.request({ method: 'POST', path: '/apis/authentication.k8s.io/v1/selfsubjectreviews', body });
  const { status } = parseJson(answer.body, 'a review') as { status: { userInfo: { username: string } } };
  return status.userInfo.username;
}

async function isUser(api: HttpKubeApi, name: string): Promise<void> {
  await waitFor(async () => (await userOf(api)) === name, { message: `the user ${name}` });
}

describe('a new token in the file', () => {
  it('after a 401, the client uses the new token in the kubeconfig file at once, and its callers get no error', async () => {
    const [old, next] = [await revocableToken('old'), await revocableToken('next')];
    await using followed = await follow({ token: old.token }, NEVER_MS);
    assert.equal(await userOf(followed.api), 'system:serviceaccount:default:old');
    await followed.replace({ token: next.token });
    assert.equal(await userOf(followed.api), 'system:serviceaccount:default:old', 'not before it is needed');
    await old.revoke();
    // Three calls run at the same time, and each gets a 401.
    const users = await Promise.all([1, 2, 3].map(async () => await userOf(followed.api)));
    assert.deepEqual(new Set(users), new Set(['system:serviceaccount:default:next']));
    assert.deepEqual([followed.replaced.length, followed.problems], [1, []]);
  });

  it('calls and watches use a new token in the kubeconfig file soon after the change, even without a 401', async () => {
    await using followed = await follow({ token: plane.adminToken }, SHORT_MS);
    await using watching = watchNamespaces(followed.api);
    await waitFor(() => watching.watcher.health.connected, { message: 'the watch' });
    await permitNamespaces('alice');
    await followed.replace({ token: plane.tokenFor('alice') });
    await isUser(followed.api, 'alice');
    await plane.api.createNamespaces(['while-alice']);
    await waitFor(() => has(watching.held, 'while-alice'), { message: 'the watch to go on' });
    assert.equal(followed.replaced.length, 1);
  });

  it('if the kubeconfig file is a symbolic link, as in a mounted Secret, the client finds a new token in it', async () => {
    const mount = path.join(folder, 'mount');
    const version = async (name: string, user: string): Promise<void> => {
      await mkdir(path.join(mount, name), { recursive: true });
      const yaml = kubeconfigYaml({ server: plane.url, caPem: plane.caPem, token: plane.tokenFor(user) });
      await writeFile(path.join(mount, name, 'kubelb'), yaml);
      await symlink(name, path.join(mount, 'data-new'));
      await rename(path.join(mount, 'data-new'), path.join(mount, 'data'));
    };
    await version('1', 'alice');
    const connection = await followKubeconfig({
      path: path.join(mount, 'data', 'kubelb'),
      flag: FLAG,
      env: {},
      onReplaced: () => undefined,
      onProblem: ({ message }) => assert.fail(message),
    });
    await using api = new HttpKubeApi(connection, { clock: checking(SHORT_MS) });
    assert.equal(await userOf(api), 'alice');
    await version('2', 'bob');
    await isUser(api, 'bob');
  });
});

it('after the client certificate in the kubeconfig file is replaced, calls use the new certificate', async () => {
  const [alice, bob] = await Promise.all(
    ['alice', 'bob'].map(async (commonName) => await plane.clientCertificate({ commonName })),
  );
  assert.ok(alice !== undefined && bob !== undefined);
  const certificate = ({ certPem, keyPem }: typeof alice): Partial<KubeconfigOptions> => {
    return { clientCertPem: certPem, clientKeyPem: keyPem };
  };
  await using followed = await follow(certificate(alice), SHORT_MS);
  assert.equal(await userOf(followed.api), 'alice');
  await followed.replace(certificate(bob));
  await isUser(followed.api, 'bob');
});

describe('a new server in the file', () => {
  const via = ({ url, caPem }: FaultProxy): Partial<KubeconfigOptions> => {
    return { server: url, caPem, token: plane.adminToken };
  };
  const proxy = async (): Promise<FaultProxy> =>
    await startFaultProxy({ upstream: plane.url, upstreamCaPem: plane.caPem });

  it('when the kubeconfig file names a new server, watches and calls move to it, also calls that wait for the old server', async () => {
    await using before = await proxy();
    await using next = await proxy();
    await using followed = await follow(via(before), SHORT_MS);
    await using watching = watchNamespaces(followed.api);
    await waitFor(() => watching.watcher.health.connected, { message: 'the watch' });
    await before.refuse();
    await waitFor(() => !watching.watcher.health.connected, { message: 'the end of the watch' });
    await assert.rejects(userOf(followed.api), { name: 'ConnectionError' });
    const waiting = Promise.allSettled(Array.from({ length: 20 }, async () => await userOf(followed.api)));
    await followed.replace(via(next));
    const statuses = (await waiting).map(({ status }) => status);
    assert.ok(statuses.includes('fulfilled'), 'only single calls try a server that does not answer');
    await plane.api.createNamespaces(['after-move']);
    await waitFor(() => has(watching.held, 'after-move'), { message: 'the watch of the new server' });
  });

  it('when the kubeconfig file names a new server, a watch leaves an old server that does not answer and moves to the new one', async () => {
    await using before = await proxy();
    await using next = await proxy();
    await using followed = await follow(via(before), SHORT_MS);
    before.partition();
    await using watching = watchNamespaces(followed.api);
    await followed.replace(via(next));
    await waitFor(() => watching.watcher.health.connected, { message: 'the watch of the new server' });
    assert.deepEqual(watching.troubles, [], 'the move is no failure');
  });

  it('when the kubeconfig file names a new server, a call that already runs ends at the old server', async () => {
    await using before = await proxy();
    await using next = await proxy();
    await using followed = await follow(via(before), SHORT_MS);
    const held = Promise.withResolvers<void>();
    before.rule({ match: { method: 'GET' }, fault: { kind: 'hold', until: held.promise } });
    const slow = followed.api.request({ method: 'GET', path: '/version' });
    await waitFor(() => before.requests.length > 0, { message: 'the call to arrive' });
    await followed.replace(via(next));
    await waitFor(() => followed.replaced.length === 1, { message: 'the new connection' });
    assert.equal(await userOf(followed.api), 'admin');
    held.resolve();
    assert.equal((await slow).status, 200);
    assert.equal(before.requests.length, 1);
  });
});

const UNUSABLE: Readonly<Record<string, readonly [content: string | undefined, message: RegExp]>> = {
  missing: [undefined, /does not exist$/],
  empty: ['\n', /is empty$/],
  'cut in the middle of a line': ['apiVersion: v1\nclusters:\n- name: "te', /is not YAML/],
  'cut between two lines': [
    'apiVersion: v1\nclusters:\n- name: test\n',
    /current-context|must be|is missing|is not set/,
  ],
  'without its context': ['apiVersion: v1\ncurrent-context: other\n', /no such context "other"/],
};

describe('a file that cannot be used', () => {
  for (const [title, [content, message]] of Object.entries(UNUSABLE)) {
    it(`if a kubeconfig file becomes unusable (${title}), the client keeps its connection and reports the problem one time`, async () => {
      await using followed = await follow({ token: plane.tokenFor('alice') }, SHORT_MS);
      const { api, file, problems } = followed;
      if (content === undefined) await rm(file);
      else await put(file, content);
      await waitFor(() => problems.length > 0, { message: 'the problem to be reported' });
      assert.equal(await userOf(api), 'alice');
      assert.match(problems[0] ?? '', message);
      assert.ok(problems[0]?.includes(FLAG) && problems[0].includes(file), problems[0]);
      await followed.replace({ token: plane.tokenFor('bob') });
      await isUser(api, 'bob');
      assert.equal(problems.length, 1, problems.join('\n'));
    });

    it(`if the kubeconfig file is unusable at the start (${title}), the error names the flag and the file`, async () => {
      const file = path.join(folder, `start-${(count += 1)}`);
      if (content !== undefined) await writeFile(file, content);
      const opening = followKubeconfig({
        path: file,
        flag: FLAG,
        env: {},
        onReplaced: () => undefined,
        onProblem: () => undefined,
      });
      await assert.rejects(opening, (error: Error) => {
        assert.match(error.message, message);
        return error.name === 'KubeconfigError' && error.message.startsWith(`${FLAG}: ${file}`);
      });
    });
  }

  it('the report about an unusable kubeconfig file does not show the token in the file', async () => {
    await using followed = await follow({ token: plane.tokenFor('alice') }, SHORT_MS);
    const token = plane.tokenFor('bob');
    await put(followed.file, kubeconfigYaml({ server: plane.url, token }).replace('current-context: test', ''));
    await waitFor(() => followed.problems.length > 0, { message: 'the problem to be reported' });
    assert.ok(!followed.problems.join().includes(token));
  });
});

interface Watching extends AsyncDisposable {
  readonly watcher: Watcher;
  readonly held: HeldObjects;
  /** The failures of watch streams that the watcher reported. */
  readonly troubles: readonly unknown[];
}

function watchNamespaces(api: HttpKubeApi): Watching {
  const held = new HeldObjects();
  const target = { collection: 'namespaces', path: '/api/v1/namespaces', metadataOnly: true };
  const troubles: unknown[] = [];
  const onTrouble = (error: unknown): unknown => troubles.push(error);
  const watcher = new Watcher({ api, target, sink: held, onTrouble }).start();
  return { watcher, held, troubles, [Symbol.asyncDispose]: async () => await watcher.stop() };
}

function has(held: HeldObjects, namespace: string): boolean {
  return held.log.some((line) => line.split(/[ @]/)[1] === namespace);
}

async function permitNamespaces(user: string): Promise<void> {
  const apiGroup = 'rbac.authorization.k8s.io';
  await plane.api.apply([
    {
      apiVersion: `${apiGroup}/v1`,
      kind: 'ClusterRole',
      metadata: { name: 'namespaces' },
      rules: [{ apiGroups: [''], resources: ['namespaces'], verbs: ['list', 'watch'] }],
    },
    {
      apiVersion: `${apiGroup}/v1`,
      kind: 'ClusterRoleBinding',
      metadata: { name: 'namespaces' },
      roleRef: { apiGroup, kind: 'ClusterRole', name: 'namespaces' },
      subjects: [{ apiGroup, kind: 'User', name: user }],
    },
  ]);
}

/** Creates a ServiceAccount with a token. `revoke` resolves when the API server no longer accepts the token. */
async function revocableToken(name: string): Promise<{ readonly token: string; readonly revoke: () => Promise<void> }> {
  const metadata = { name, namespace: 'default' };
  await plane.api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata });
  const { metadata: bound } = await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata });
  const answer = await plane.api.call('POST', `/api/v1/namespaces/default/serviceaccounts/${name}/token`, {
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: { boundObjectRef: { apiVersion: 'v1', kind: 'Secret', name, uid: bound.uid } },
    },
  });
  const { token } = answer.status;
  const revoke = async (): Promise<void> => {
    await plane.api.delete(`/api/v1/namespaces/default/secrets/${name}`);
    using client = plane.client({ token });
    await waitFor(async () => (await client.raw('GET', '/api')).status === 401, { message: 'the token to be revoked' });
  };
  return { token, revoke };
}
