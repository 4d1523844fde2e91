/** The server of `keyferry ui` over real HTTP: who gets the data, and who does not. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { text } from 'node:stream/consumers';

import type { PageMessage } from '../../../ui/data.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { ensureBundle } from '../../support/bundle.ts';
import { waitFor } from '../../support/wait-for.ts';
import { mirror, namespace, secret } from '../cli/objects.ts';
import { runProgram } from '../cli/program.ts';
import { type RunningPage, startPage, TENANT, tenantKubeconfig } from './program.ts';

interface Answer {
  readonly status: number | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

describe('the server of keyferry ui', () => {
  let plane: ControlPlane;
  let page: RunningPage;
  let token: string;

  before(async () => {
    plane = await startControlPlane({ controllerManager: false, crds: true, users: [{ name: TENANT }] });
    await plane.api.create(namespace('team-a'));
    await plane.api.create(secret('default', 'one', 'the-value'));
    await plane.api.create(mirror('one', 'one', ['team-.+']));
    page = await startPage(plane.kubeconfigPath);
    const { body } = await session(codeOf(page));
    ({ token } = JSON.parse(body) as { token: string });
  });
  after(async () => {
    await page[Symbol.asyncDispose]();
    await plane.stop();
  });

  const send = async (
    path: string,
    headers: Readonly<Record<string, string>> = {},
    { method = 'GET', body }: { method?: string; body?: string } = {},
  ): Promise<Answer> => {
    const { port } = new URL(page.origin);
    return await new Promise((resolve, reject) => {
      const sent = request({ host: '127.0.0.1', port, path, method, headers, agent: false }, (response) => {
        const { statusCode: status, headers } = response;
        text(response).then((body) => resolve({ status, headers, body }), reject);
      });
      sent.on('error', reject);
      sent.end(body);
    });
  };
  const json = { 'content-type': 'application/json' };
  const bearer = (): Record<string, string> => ({ authorization: `Bearer ${token}` });
  const session = async (code: string) =>
    await send('/session', json, { method: 'POST', body: JSON.stringify({ code }) });
  const codeOf = ({ program }: RunningPage): string => [...program.stdout.matchAll(/#code=(\S+)/g)].at(-1)?.[1] ?? '';
  /** The messages of a stream, until one fits. */
  const messageWith = async (
    isWanted: (message: PageMessage) => boolean,
    origin = page.origin,
    its = token,
  ): Promise<PageMessage> => {
    const response = await fetch(`${origin}/data`, { headers: { authorization: `Bearer ${its}` } });
    assert.equal(response.status, 200);
    let rest = '';
    for await (const part of response.body!.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + part).split('\n');
      rest = lines.pop() ?? '';
      const found = lines.map((line) => JSON.parse(line) as PageMessage).find((message) => isWanted(message));
      if (found !== undefined) return found;
    }
    throw new Error('the stream has ended');
  };

  it('a code works once, and a wrong code never', async () => {
    assert.equal((await session(codeOf(page))).status, 401);
    for (const code of ['', 'x', codeOf(page).slice(1)]) assert.equal((await session(code)).status, 401, code);
  });

  it('data need the token, in the header Authorization alone', async () => {
    for (const headers of [{}, { authorization: 'Bearer x' }, { cookie: `keyferry-token=${token}` }]) {
      assert.equal((await send('/data', headers)).status, 401);
      const plan = await send('/plan', { ...headers, ...json }, { method: 'POST', body: '{"manifests":""}' });
      assert.equal(plan.status, 401);
    }
    assert.equal((await send(`/data?token=${token}`)).status, 404);
  });

  it('another host name is refused, even one that begins or ends with the own', async () => {
    const { host, port } = new URL(page.origin);
    for (const other of [
      `${host}.evil.example`,
      `evil.example:${port}`,
      `127.0.0.1`,
      `127.0.0.1:${Number(port) + 1}`,
      `localhost.:${port}`,
    ])
      assert.equal((await send('/', { host: other })).status, 403, other);
    for (const own of [host, `localhost:${port}`, `[::1]:${port}`])
      assert.equal((await send('/', { host: own })).status, 200, own);
  });

  it('another origin and another site are refused, also with the token', async () => {
    for (const origin of ['null', 'http://127.0.0.1:1', 'https://evil.example', page.origin.replace('http', 'https')])
      assert.equal((await send('/data', { ...bearer(), origin })).status, 403, origin);
    for (const site of ['same-site', 'cross-site', 'x'])
      assert.equal((await send('/', { 'sec-fetch-site': site })).status, 403, site);
    for (const site of ['same-origin', 'none'])
      assert.equal((await send('/', { 'sec-fetch-site': site, origin: page.origin })).status, 200, site);
  });

  it('only the known methods and paths are answered, and a body must be JSON of at most 4 MiB', async () => {
    for (const [path, method] of [
      ['/x', 'GET'],
      ['/../etc/passwd', 'GET'],
      ['/', 'POST'],
      ['/data', 'POST'],
      ['/data', 'DELETE'],
      ['/', 'OPTIONS'],
      ['/session', 'GET'],
    ] as const)
      assert.equal((await send(path, bearer(), { method })).status, 404, `${method} ${path}`);
    const post = { method: 'POST', body: '{"manifests":""}' };
    assert.equal((await send('/plan', { ...bearer(), 'content-type': 'text/plain' }, post)).status, 415);
    assert.equal((await send('/plan', { ...bearer(), ...json }, { ...post, body: '{' })).status, 400);
    const large = JSON.stringify({ manifests: 'x'.repeat(4 * 1024 * 1024) });
    assert.equal((await send('/plan', { ...bearer(), ...json }, { ...post, body: large })).status, 413);
  });

  it('every answer has the strict policy, and no answer may be kept or embedded', async () => {
    for (const path of ['/', '/page.js', '/page.css', '/icon.svg', '/data', '/nothing']) {
      const { headers } = await send(path);
      const policy = String(headers['content-security-policy']);
      for (const part of [
        "default-src 'none'",
        "script-src 'self'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
        "frame-ancestors 'none'",
        "form-action 'none'",
      ])
        assert.ok(policy.includes(part), `${path}: ${part}`);
      assert.doesNotMatch(policy, /unsafe|https?:|\*/);
      assert.equal(headers['cache-control'], 'no-store');
      assert.equal(headers['x-content-type-options'], 'nosniff');
      assert.equal(headers['referrer-policy'], 'no-referrer');
      assert.equal(headers['cross-origin-resource-policy'], 'same-origin');
      assert.equal(headers['access-control-allow-origin'], undefined);
      assert.equal(headers['set-cookie'], undefined);
    }
  });

  it('the stream begins with everything, and then has the changed rules alone', async () => {
    const first = await messageWith(() => true);
    assert.deepEqual(
      first.rules.map(({ id, from }) => [id, from?.name]),
      [['mirrors SecretMirror default/one', 'one']],
    );
    assert.deepEqual(
      first.frame?.namespaces?.filter(({ name }) => name === 'team-a'),
      [{ name: 'team-a' }],
    );
    let messages = 0;
    const changed = messageWith(({ rules }) => messages++ > 0 && rules.length > 0);
    // The stream is open when the server has sent the first message of it; the object may come before or after that.
    let made = 0;
    const maker = async (): Promise<boolean> => {
      await plane.api.create(mirror(`two-${made++}`, 'one', ['team-.+']));
      return await Promise.race([
        changed.then(() => true),
        new Promise<false>((resolve) => void setImmediate(resolve, false)),
      ]);
    };
    await waitFor(maker, { intervalMs: 300, message: 'a change in the stream' });
    const message = await changed;
    assert.deepEqual(new Set(message.rules.map(({ name }) => name.slice(0, 4))), new Set(['two-']));
  });

  it('no value of a Secret is in the data', async () => {
    const everything = JSON.stringify(await messageWith(() => true));
    assert.doesNotMatch(everything, /the-value|dGhlLXZhbHVl/);
  });

  it('a plan writes nothing, and a mistake in a manifest is the answer of the command', async () => {
    const post = async (manifests: string) =>
      await send('/plan', { ...bearer(), ...json }, { method: 'POST', body: JSON.stringify({ manifests }) });
    const planned = await post(
      JSON.stringify(
        mirror('planned', 'one', ['team-.+'], { destination: { namespaces: ['team-.+'], name: 'other' } }),
      ),
    );
    assert.equal(planned.status, 200, planned.body);
    assert.deepEqual(
      (JSON.parse(planned.body) as { targets: { action: string; name: string }[] }).targets.map(({ action, name }) => [
        action,
        name,
      ]),
      [['create', 'other']],
    );
    const wrong = await post('kind: [');
    assert.equal(wrong.status, 422);
    assert.notEqual(wrong.body, '');
    assert.equal(
      (await plane.api.find('/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/planned')) ===
        undefined,
      true,
    );
  });

  it('Ctrl-C ends the command with code 0, also while a page is open', async () => {
    await using other = await startPage(plane.kubeconfigPath, '--port=0');
    const { port } = new URL(other.origin);
    const answer = await fetch(`http://127.0.0.1:${port}/session`, {
      method: 'POST',
      headers: json,
      body: JSON.stringify({ code: codeOf(other) }),
    });
    const { token: own } = (await answer.json()) as { token: string };
    const stream = await fetch(`${other.origin}/data`, { headers: { authorization: `Bearer ${own}` } });
    assert.equal(stream.status, 200);
    assert.deepEqual(await other.program.interrupt(), [0, null]);
    await assert.rejects(stream.text());
  });

  it('with rights in one namespace alone, its rules are shown, and a note says what is missing', async () => {
    const kubeconfig = await tenantKubeconfig(plane);
    const refused = await runProgram(['ui', '--open=false', '--kubeconfig', kubeconfig]);
    assert.equal(refused.code, 1);
    assert.match(refused.stderr, /no permission to list .*; to read only some namespaces, name them with --namespaces/);
    await using own = await startPage(kubeconfig, '-n', 'default', '--controllers=mirrors');
    const answer = await fetch(`${own.origin}/session`, {
      method: 'POST',
      headers: json,
      body: JSON.stringify({ code: codeOf(own) }),
    });
    const { token: its } = (await answer.json()) as { token: string };
    const first = await messageWith(() => true, own.origin, its);
    assert.ok(first.frame);
    assert.equal(first.frame.namespaces, null);
    assert.match(first.frame.notes.join('\n'), /may read are included: default \(no permission to list and watch /);
    assert.ok(first.rules.some(({ name }) => name === 'one'));
  });

  it('Enter prints a new address, and the code of the first one is no longer valid', async () => {
    const args = ['ui', '--open=false', '--kubeconfig', plane.kubeconfigPath];
    const child = spawn(process.execPath, [await ensureBundle(), ...args], { stdio: ['pipe', 'pipe', 'inherit'] });
    let written = '';
    child.stdout.on('data', (part: Buffer) => (written += part.toString()));
    const urls = (): string[] => written.match(/http:\S+#code=\S+(?=\n)/g) ?? [];
    try {
      await waitFor(() => urls().length === 1, { message: 'the first address' });
      child.stdin.write('\n');
      await waitFor(() => urls().length === 2, { message: 'the second address' });
      const statuses = await Promise.all(
        urls().map(async (url) => {
          const [origin = '', code = ''] = url.split('/#code=');
          return (await fetch(`${origin}/session`, { method: 'POST', headers: json, body: JSON.stringify({ code }) }))
            .status;
        }),
      );
      assert.deepEqual(statuses, [401, 200]);
    } finally {
      child.kill('SIGINT');
      await once(child, 'close');
    }
  });

  it('a cluster that cannot be read is an error of the command', async () => {
    const nowhere = await plane.writeKubeconfig({ server: 'https://127.0.0.1:9', token: 'x' });
    const { code, stderr } = await runProgram(['ui', '--open=false', '--kubeconfig', nowhere]);
    assert.equal(code, 1);
    assert.match(stderr, /^keyferry ui: cannot use the cluster at https:\/\/127\.0\.0\.1:9/);
  });
});
