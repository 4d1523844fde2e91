import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { inspect } from 'node:util';
import { systemClock } from '../../runtime/clock.ts';
import type { AuthHeaders } from '../connection.ts';
import { loadKubeconfig } from './kubeconfig.ts';

const dir = mkdtempSync(join(tmpdir(), 'keyferry-config-'));
after(() => rmSync(dir, { recursive: true }));
let files = 0;

function write(text: string, path = `config-${(files += 1)}`): string {
  const whole = join(dir, path);
  mkdirSync(join(whole, '..'), { recursive: true });
  writeFileSync(whole, text);
  return whole;
}

/**
 * A kubeconfig with one context. Its cluster and its user are given as YAML flow mappings, for example `{token: t}`.
 */
function configOf(cluster: string, user = '{}', context = '{cluster: c, user: u}'): string {
  return `apiVersion: v1
kind: Config
current-context: x
clusters: [{name: c, cluster: ${cluster}}]
users: [{name: u, user: ${user}}]
contexts: [{name: x, context: ${context}}]
`;
}

const SERVER = '{server: "https://a:6443"}';

async function headersOf(text: string): Promise<AuthHeaders> {
  return (await loadKubeconfig({ path: write(text), env: {} })).credentials.headers();
}

describe('a kubeconfig is read:', () => {
  test('a kubeconfig gives the server, namespace, proxy, TLS material and origin of the connection', async () => {
    const ca = Buffer.from('a CA').toString('base64');
    const cluster = `{server: "https://[::1]:1/p", certificate-authority-data: ${ca}, tls-server-name: n, proxy-url: "http://u:p@h:3128"}`;
    const path = write(configOf(cluster, '{}', '{cluster: c, user: u, namespace: team}'));
    const connection = await loadKubeconfig({ path, env: {}, cluster: 'tenant' });
    assert.equal(connection.server.href, 'https://[::1]:1/p');
    assert.equal(connection.proxy?.href, 'http://u:p@h:3128/');
    assert.equal(connection.namespace, 'team');
    assert.equal(connection.cluster, 'tenant');
    assert.equal(connection.origin, `${path}, context "x"`);
    assert.deepEqual(await connection.credentials.tls(), {
      ca: Buffer.from('a CA'),
      cert: undefined,
      key: undefined,
      servername: 'n',
      rejectUnauthorized: true,
    });
  });

  test('each kind of credentials in a kubeconfig becomes headers or TLS material', async () => {
    const table: readonly [string, AuthHeaders][] = [
      ['{}', {}],
      ['{token: t}', { Authorization: 'Bearer t' }],
      [
        '{token: t, as: a, as-uid: "7", as-groups: [g, h]}',
        {
          'Impersonate-User': 'a',
          'Impersonate-Uid': '7',
          'Impersonate-Group': ['g', 'h'],
          Authorization: 'Bearer t',
        },
      ],
    ];
    for (const [user, expected] of table) assert.deepEqual(await headersOf(configOf(SERVER, user)), expected, user);
  });

  test('files that a kubeconfig names are relative to its folder, and a token file takes precedence over a token', async () => {
    write(' from-file\n', 'creds/token');
    write('CERT', 'creds/tls.crt');
    write('KEY', 'creds/tls.key');
    write('CA', 'creds/ca.crt');
    const user = '{token: t, tokenFile: token, client-certificate: tls.crt, client-key: ./tls.key}';
    const path = write(configOf('{server: "https://a", certificate-authority: ca.crt}', user), 'creds/config');
    const { credentials } = await loadKubeconfig({ path, env: {} });
    assert.deepEqual(await credentials.headers(), { Authorization: 'Bearer from-file' });
    const tls = await credentials.tls();
    assert.deepEqual([tls.ca, tls.cert, tls.key].map(String), ['CA', 'CERT', 'KEY']);
    assert.equal(await credentials.tls(), tls, 'the same object while nothing changed');
  });

  test('data in a kubeconfig takes precedence over a file; a server without scheme is https if TLS is configured, else http', async () => {
    const path = write(configOf('{server: "a:1", certificate-authority-data: Q0E=, certificate-authority: /nowhere}'));
    const connection = await loadKubeconfig({ path, env: {} });
    assert.equal(connection.server.href, 'https://a:1/');
    assert.equal(String((await connection.credentials.tls()).ca), 'CA');
    const plain = await loadKubeconfig({ path: write(configOf('{server: "a:1"}')), env: {} });
    assert.equal(plain.server.href, 'http://a:1/');
    const insecure = await loadKubeconfig({
      path: write(configOf('{server: "a:1", insecure-skip-tls-verify: true}')),
      env: {},
    });
    assert.deepEqual(
      [insecure.server.protocol, await insecure.credentials.tls()],
      ['https:', { ca: undefined, cert: undefined, key: undefined, servername: undefined, rejectUnauthorized: false }],
    );
  });
});

describe('the kubeconfig is found by', () => {
  const named = (name: string): string => configOf(`{server: "https://${name}"}`);
  const home = join(dir, 'home');
  write(named('home'), 'home/.kube/config');
  const pod = { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '443' };

  test('the kubeconfig comes from the flag, $KUBECONFIG, the home folder or the Pod, in this order', async () => {
    const [flag, list] = [write(named('flag')), write(named('list'))];
    const at = async (env: Record<string, string>, path?: string): Promise<string> =>
      (await loadKubeconfig({ path, env })).server.host;
    assert.equal(await at({ ...pod, KUBECONFIG: list, HOME: home }, flag), 'flag');
    assert.equal(await at({ ...pod, KUBECONFIG: list, HOME: home }), 'list');
    assert.equal(await at({ ...pod, HOME: home }), 'home');
    assert.equal(await at({ ...pod, HOME: dir }), '[fd00::1]');
    const inPod = await loadKubeconfig({ env: { ...pod, HOME: dir } });
    assert.deepEqual([inPod.origin, inPod.namespace], ['in-cluster', 'default']);
  });

  test('if there is no kubeconfig, the error lists where it was looked for; a kubeconfig that was named must exist', async () => {
    await assert.rejects(
      loadKubeconfig({ env: { HOME: dir } }),
      /no --kubeconfig, \$KUBECONFIG is not set, .*\.kube\/config does not exist, and this process does not run in a Pod/u,
    );
    await assert.rejects(loadKubeconfig({ path: join(dir, 'none'), env: { HOME: home } }), /none: does not exist/u);
    await assert.rejects(
      loadKubeconfig({ env: { KUBECONFIG: join(dir, 'none'), HOME: home } }),
      /\$KUBECONFIG: no such file/u,
    );
    await assert.rejects(
      loadKubeconfig({ context: 'x', env: { ...pod, HOME: dir } }),
      /--context: "x" needs a kubeconfig/u,
    );
  });

  test('the files in $KUBECONFIG are merged: the first entry of a name is used as a whole, and missing files are skipped', async () => {
    const first = write(`
clusters: [{name: c, cluster: {server: "https://first"}}]
users: [{name: u, user: {as: somebody}}]
contexts: [{name: only-first, context: {cluster: c, user: u}}]
`);
    const second = write(`
current-context: x
clusters: [{name: c, cluster: {server: "https://second"}}, {name: d, cluster: {server: "https://d"}}]
users: [{name: u, user: {token: second}}]
contexts: [{name: x, context: {cluster: c, user: u}}, {name: y, context: {cluster: d, user: u}}]
`);
    const env = { KUBECONFIG: ['', join(dir, 'none'), first, second].join(delimiter) };
    const chosen = async (context?: string): Promise<unknown[]> => {
      const { server, credentials } = await loadKubeconfig({ env, context });
      return [server.host, await credentials.headers()];
    };
    assert.deepEqual(await chosen(), ['first', { 'Impersonate-User': 'somebody' }]);
    assert.deepEqual(await chosen('y'), ['d', { 'Impersonate-User': 'somebody' }]);
    assert.deepEqual(await chosen('only-first'), ['first', { 'Impersonate-User': 'somebody' }]);
  });
});

describe('errors name file and field:', () => {
  const table: readonly [string, string, RegExp][] = [
    [
      'no current context',
      configOf(SERVER).replace('current-context: x', ''),
      /current-context: is not set .*there are: "x"/u,
    ],
    ['no context at all', 'apiVersion: v1\n', /current-context: is not set .*\(there are none\)/u],
    [
      'an unknown context',
      configOf(SERVER).replace('current-context: x', 'current-context: z'),
      /contexts: no such context "z" \(there are: "x"\)/u,
    ],
    [
      'an unknown cluster',
      configOf(SERVER, '{}', '{cluster: z}'),
      /contexts\[name=x\]\.context\.cluster: no such cluster "z"/u,
    ],
    [
      'an unknown user',
      configOf(SERVER, '{}', '{cluster: c, user: y}'),
      /contexts\[name=x\]\.context\.user: no such user "y"/u,
    ],
    ['no cluster', configOf(SERVER, '{}', '{user: u}'), /contexts\[name=x\]\.context\.cluster: is missing/u],
    ['no server', configOf('{}'), /clusters\[name=c\]\.cluster\.server: is missing/u],
    ['a broken server', configOf('{server: "https://"}'), /cluster\.server: is not a URL/u],
    ['another scheme', configOf('{server: "ftp://a"}'), /cluster\.server: must be https or http, is ftp:/u],
    ['a password in the server', configOf('{server: "https://u:s3cret@a"}'), /cluster\.server: must not hold/u],
    [
      'a proxy of another kind',
      configOf('{server: "https://a", proxy-url: "ftp://u:s3cret@h"}'),
      /proxy-url: ftp:\/\/ is not supported/u,
    ],
    [
      'broken base64',
      configOf('{server: "https://a", certificate-authority-data: "s3cret!"}'),
      /certificate-authority-data: is not base64/u,
    ],
    [
      'a CA and insecure-skip-tls-verify',
      configOf('{server: "https://a", certificate-authority-data: Q0E=, insecure-skip-tls-verify: true}'),
      /insecure-skip-tls-verify: must not be true/u,
    ],
    [
      'a word for a boolean',
      configOf('{server: "https://a", insecure-skip-tls-verify: "yes"}'),
      /insecure-skip-tls-verify: must be true or false, is a string/u,
    ],
    [
      'a number for a token',
      configOf(SERVER, '{token: 5318008}'),
      /users\[name=u\]\.user\.token: must be a string, is a number/u,
    ],
    [
      'a token of two lines',
      configOf(SERVER, '{token: "s3cret\\nX-Other: 1"}'),
      /users\[name=u\]\.user\.token: has characters/u,
    ],
    [
      'a user name',
      configOf(SERVER, '{username: a, password: s3cret}'),
      /users\[name=u\]\.user\.username: is no longer supported/u,
    ],
    ['a certificate alone', configOf(SERVER, '{client-certificate: a}'), /user\.client-key: is missing/u],
    ['auth-provider', configOf(SERVER, '{auth-provider: {name: gcp}}'), /user\.auth-provider: is no longer supported/u],
    ['extra of a user', configOf(SERVER, '{as: a, as-user-extra: {a: [b]}}'), /user\.as-user-extra: is not supported/u],
    ['groups without a user', configOf(SERVER, '{as-groups: [g]}'), /user\.as: is missing/u],
    ['exec without a version', configOf(SERVER, '{exec: {command: a}}'), /user\.exec\.apiVersion: is missing/u],
    [
      'exec of an old version',
      configOf(SERVER, '{exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: a}}'),
      /exec\.apiVersion: must be .*v1 or .*v1beta1, is ".*v1alpha1"/u,
    ],
    [
      'exec without a mode',
      configOf(SERVER, '{exec: {apiVersion: client.authentication.k8s.io/v1, command: a}}'),
      /exec\.interactiveMode: must be .* is missing/u,
    ],
    [
      'exec that asks people',
      configOf(SERVER, '{exec: {apiVersion: client.authentication.k8s.io/v1, command: a, interactiveMode: Always}}'),
      /exec\.interactiveMode: is Always/u,
    ],
    [
      'exec without a command',
      configOf(SERVER, '{exec: {apiVersion: client.authentication.k8s.io/v1beta1}}'),
      /exec\.command: is missing/u,
    ],
    [
      'exec with a nameless variable',
      configOf(
        SERVER,
        '{exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: a, env: [{value: s3cret}]}}',
      ),
      /exec\.env\[0\]\.name: is missing/u,
    ],
    [
      'the same user name twice',
      configOf(SERVER).replace('users: [', 'users: [{name: u, user: {}}, '),
      /users\[name=u\]: the name "u" is used twice/u,
    ],
    ['no mapping', 'clusters: {}', /clusters: must be a list, is a mapping/u],
    ['another kind', 'kind: Secret\ndata: {a: s3cret}', /kind: must be "Config", is "Secret"/u],
    ['text that is not YAML', 'users:\n- token: "s3cret\n  ]', /is not YAML: \w+ in line \d, column \d+/u],
    ['an alias', 'users: [{name: u, user: {token: *s3cret}}]', /is not YAML: it has an alias/u],
    ['nothing', '', /current-context: is not set/u],
  ];
  for (const [name, text, expected] of table) {
    test(`a kubeconfig with ${name} is refused, and the error names file and field but quotes no secret`, async () => {
      const path = write(text);
      await assert.rejects(loadKubeconfig({ path, env: {} }), (error: Error) => {
        assert.equal(error.name, 'KubeconfigError');
        assert.match(error.message, expected);
        assert.ok(error.message.startsWith(path));
        assert.doesNotMatch(inspect(error), /s3cret|5318008/u);
        return true;
      });
    });
  }

  test('if a file that a kubeconfig names cannot be read, the call that needs the file fails', async () => {
    const path = write(configOf('{server: "https://a", certificate-authority: none.crt}', '{tokenFile: empty}'));
    const { credentials } = await loadKubeconfig({ path, env: {}, clock: systemClock });
    await assert.rejects(async () => credentials.tls(), {
      name: 'CredentialError',
      message: `${path}: clusters[name=c].cluster.certificate-authority: cannot read ${join(dir, 'none.crt')}: ENOENT`,
    });
    write('\n', 'empty');
    await assert.rejects(async () => credentials.headers(), /empty: the token file is empty/u);
    write('s3cret and\nmore', 'empty');
    credentials.invalidate();
    await assert.rejects(async () => credentials.headers(), /empty: the file does not hold a single token/u);
  });
});
