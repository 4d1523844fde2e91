/**
 * With `--namespace-selector`, Keyferry serves only namespaces with a label. As with the chart, it has permission to
 * read all Namespaces, but other objects only where an administrator bound its ClusterRole.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { parse } from 'yaml';

import { statusSchema } from '../../../scripts/reports/schemas.ts';
import type { Json } from '../../support/api.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import { waitForRights } from '../../support/permissions.ts';
import { requestToken, serviceAccountUser } from '../../support/service-account.ts';
import { waitFor } from '../../support/wait-for.ts';
import { startFaultProxy } from '../../servers/fault-proxy.ts';
import { kubernetesFault, type ProxyRequest } from '../../servers/fault-rules.ts';
import { RunningProgram, runProgram } from '../cli/program.ts';
import { FINALIZER, labels, mirrorPath, MirrorScene, secretPath } from '../mirrors/support.ts';

const NAME = 'keyferry';
const USER = serviceAccountUser(NAME, NAME);
const RBAC = 'rbac.authorization.k8s.io';
const SELECTOR = '--namespace-selector=team=a';
const RULES = new URL('../../../deploy/helm/keyferry/files/rules/', import.meta.url);

describe('keyferry run --namespace-selector', () => {
  let scene: MirrorScene;
  let kubeconfig: string;
  let operator: Keyferry;

  const start = async (): Promise<void> => {
    operator = await scene.operator({ kubeconfig, args: ['--controllers=mirrors,replicator', SELECTOR] });
  };
  const label = async (namespace: string, team: string | null): Promise<unknown> =>
    await scene.api.patch(`/api/v1/namespaces/${namespace}`, labels({ team }));
  /** Creates the RoleBinding of docs/install.md in a namespace, as an administrator does. */
  const bind = async (namespace: string): Promise<void> => {
    await scene.api.create({
      apiVersion: `${RBAC}/v1`,
      kind: 'RoleBinding',
      metadata: { name: NAME, namespace },
      roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: `${NAME}-namespace` },
      subjects: [{ kind: 'ServiceAccount', name: NAME, namespace: NAME }],
    });
    await waitForRights(scene.api, { user: USER, groups: [] }, namespace, ['core/secrets: list']);
  };
  /** Creates namespaces and gives Keyferry the permissions to serve them. */
  const open = async (...namespaces: readonly string[]): Promise<void> => {
    await scene.namespaces(...namespaces);
    for (const namespace of namespaces) await bind(namespace);
  };
  const annotated = async (namespace: string, name: string, values: object): Promise<unknown> =>
    await scene.secret(namespace, name, { password: 'x' }, { metadata: { annotations: values } });
  const copyVersion = async (namespace: string, name: string): Promise<string> =>
    (await scene.api.get(secretPath(namespace, name))).metadata.resourceVersion;
  /** The number of open watches in a namespace, by the metrics of the operator. */
  const watchesIn = async (namespace: string): Promise<number> => {
    const text = await operator.metrics();
    return text
      .split('\n')
      .filter((line) => line.startsWith('keyferry_watch_connected{') && line.includes(`/${namespace}"`)).length;
  };
  const requests = (namespace: string): string[] => {
    const entries = readAuditLog(scene.plane, USER).filter((entry) => entry.uri.includes(`/namespaces/${namespace}/`));
    return entries.map(({ verb, uri }) => `${verb} ${uri}`);
  };

  before(async () => {
    scene = await MirrorScene.open({ controllerManager: false, audit: true });
    const rules = ['copies', 'mirrors', 'replicator'].flatMap((file): Json[] =>
      parse(readFileSync(new URL(`${file}.yaml`, RULES), 'utf8')),
    );
    const isOfNamespaces = ({ resources }: Json): boolean => resources.includes('namespaces');
    const role = (name: string, some: Json[]): Json => {
      return { apiVersion: `${RBAC}/v1`, kind: 'ClusterRole', metadata: { name }, rules: some };
    };
    await scene.namespaces(NAME, 'bare', 'other');
    await scene.api.apply([
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: NAME, namespace: NAME } },
      role(NAME, rules.filter(isOfNamespaces)),
      role(
        `${NAME}-namespace`,
        rules.filter((rule) => !isOfNamespaces(rule)),
      ),
      {
        apiVersion: `${RBAC}/v1`,
        kind: 'ClusterRoleBinding',
        metadata: { name: NAME },
        roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: NAME },
        subjects: [{ kind: 'ServiceAccount', name: NAME, namespace: NAME }],
      },
    ]);
    await open('home', 'one');
    await waitForRights(scene.api, { user: USER, groups: [] }, '', ['core/namespaces: list watch']);
    kubeconfig = await scene.plane.writeKubeconfig({
      token: await requestToken(scene.api, NAME, NAME),
      namespace: NAME,
    });
    await label('home', 'a');
    await label('bare', 'a');
  });

  after(async () => {
    await scene.close();
  });

  it('if Keyferry has no permissions in a served namespace, start and other namespaces are not delayed, and log and probe name it', async () => {
    await scene.secret('home', 'db', { password: 'x' });
    await scene.mirror('db', ['home', 'one', 'other'], { destination: { name: 'copy' } }, 'home');
    await start();
    await scene.copied('home', 'copy', { password: 'x' });
    const { status, text } = await operator.probe('/readyz?verbose');
    assert.equal(status, 200);
    assert.match(text, /selects the namespace bare, where Keyferry has no permission/);
    const warnings = operator.logs().filter(({ level, advice }) => level === 'warn' && /bare/.test(advice));
    // One warning for each watch. Later tries of a watch are not logged.
    assert.ok(warnings.length > 0 && warnings.length <= 4, JSON.stringify(warnings));
    await scene.ready('db', 'Synced', /"one" is not one of .* Keyferry serves \(--namespace-selector\)/, 'home');
    assert.equal(await scene.find('one', 'copy'), undefined);
  });

  it('with --namespace-selector, a namespace that gets the label gets copies; if it loses the label, nothing there is read or written', async () => {
    await label('one', 'a');
    await scene.copied('one', 'copy', { password: 'x' }, 2000);
    await label('one', null);
    await waitFor(async () => (await watchesIn('one')) === 0, { message: 'the watches in one to end' });
    const before = await copyVersion('one', 'copy');
    const made = requests('one').length;
    await scene.change('home', 'db', { password: 'y' });
    await scene.copied('home', 'copy', { password: 'y' });
    await scene.ready('db', 'Synced', /"one" is not one of/, 'home');
    assert.equal(await copyVersion('one', 'copy'), before);
    assert.deepEqual(requests('one').slice(made), []);
    await label('one', 'a');
    await scene.copied('one', 'copy', { password: 'y' });
  });

  it('if a write waits for a Retry-After and its namespace loses the label of --namespace-selector, the write is not sent', async () => {
    const { plane } = scene;
    const proxy = await startFaultProxy({ upstream: plane.url, upstreamCaPem: plane.caPem });
    const token = await requestToken(scene.api, NAME, NAME);
    const direct = kubeconfig;
    const there = async (namespace: string, name: string): Promise<unknown> =>
      await waitFor(async () => await scene.find(namespace, name), { message: `${namespace}/${name}` });
    try {
      await operator.stop();
      kubeconfig = await plane.writeKubeconfig({ server: proxy.url, caPem: proxy.caPem, token, namespace: NAME });
      await start();
      await annotated('home', 'waiting', { 'k8s-replicator/replicate-to': 'one/waiting' });
      await there('one', 'waiting');
      // The server answers a read of another Secret with 429. This makes all requests of the client wait, also the
      // write.
      const isRead = ({ method, path }: ProxyRequest): boolean => method === 'GET' && path.endsWith('/secrets/other');
      const held = proxy.rule({ match: isRead, fault: kubernetesFault(429, 5), times: 1 });
      await annotated('home', 'other', { 'k8s-replicator/replicate-to': 'home/copy-of-other' });
      await waitFor(() => held.hits === 1, { message: 'the Retry-After' });
      await scene.api.delete(secretPath('one', 'waiting'));
      await label('one', null);
      await waitFor(async () => (await watchesIn('one')) === 0, { message: 'the watches in one to end' });
      await there('home', 'copy-of-other');
      assert.equal(await scene.find('one', 'waiting'), undefined);
      await label('one', 'a');
      await there('one', 'waiting');
      await scene.api.delete(secretPath('home', 'waiting'));
      await scene.gone(secretPath('one', 'waiting'));
    } finally {
      await operator.stop();
      kubeconfig = direct;
      await start();
      await proxy.stop();
    }
  });

  it('if a mirror is deleted, its copy in a namespace that lost the label of --namespace-selector stays until the label is back', async () => {
    await scene.mirror('brief', ['home', 'one'], { source: { name: 'db' }, destination: { name: 'brief' } }, 'home');
    await scene.copied('one', 'brief', { password: 'y' });
    await label('one', null);
    await waitFor(async () => (await watchesIn('one')) === 0, { message: 'the watches in one to end' });
    await scene.api.delete(mirrorPath('brief', 'home'));
    await scene.gone(mirrorPath('brief', 'home'), secretPath('home', 'brief'));
    assert.ok(await scene.find('one', 'brief'));
    await label('one', 'a');
    await scene.gone(secretPath('one', 'brief'));
  });

  it('if a namespace with rules loses the label of --namespace-selector, their copies stay until it is back, even if the rules are deleted', async () => {
    await open('rules');
    await label('rules', 'a');
    await scene.secret('rules', 'from', { password: 'x' });
    await scene.mirror('from', ['home'], {}, 'rules');
    await annotated('rules', 'pushed', { 'k8s-replicator/replicate-to': 'home/pushed' });
    await scene.copied('home', 'from', { password: 'x' });
    await waitFor(async () => await scene.find('home', 'pushed'), { message: 'the pushed copy' });
    await label('rules', null);
    await waitFor(async () => (await watchesIn('rules')) === 0, { message: 'the watches in rules to end' });
    const made = requests('rules').length;
    const versions = [await copyVersion('home', 'from'), await copyVersion('home', 'pushed')];
    await scene.api.delete(mirrorPath('from', 'rules'));
    await scene.api.delete(secretPath('rules', 'pushed'));
    // Makes the operator decide on both copies again: one copy is changed, and another copy is written later.
    await scene.api.patch(secretPath('home', 'pushed'), labels({ touched: 'yes' }));
    await scene.change('home', 'db', { password: 'z' });
    await scene.copied('home', 'copy', { password: 'z' });
    assert.equal(await copyVersion('home', 'from'), versions[0]);
    assert.ok(await scene.find('home', 'pushed'));
    const { metadata } = await scene.api.get(mirrorPath('from', 'rules'));
    assert.deepEqual(metadata.finalizers, [FINALIZER]);
    assert.deepEqual(requests('rules').slice(made), []);
    await label('rules', 'a');
    await scene.gone(mirrorPath('from', 'rules'), secretPath('home', 'from'), secretPath('home', 'pushed'));
  });

  it('if a namespace loses the label of --namespace-selector, pulls from it are refused, the message names it, and the objects that pulled from it keep their content', async () => {
    await open('sources');
    await label('sources', 'a');
    await annotated('sources', 'wanted', { 'k8s-replicator/replication-allowed': 'true' });
    await annotated('home', 'pulled', { 'k8s-replicator/replicate-from': 'sources/wanted' });
    const data = async (): Promise<unknown> => (await scene.api.get(secretPath('home', 'pulled'))).data;
    const content = scene.data({ password: 'x' });
    await waitFor(
      async () => {
        const { metadata } = await scene.api.get(secretPath('home', 'pulled'));
        return metadata.annotations['k8s-replicator/replicated-from-version'] !== undefined;
      },
      { message: 'the content' },
    );
    await label('sources', null);
    const refused = async (): Promise<boolean> => {
      const events = await scene.api.list('/api/v1/namespaces/home/events', {
        fieldSelector: 'involvedObject.name=pulled',
      });
      return events.some(({ message }) =>
        /sources is not one of those that Keyferry serves|no permission to read/.test(message),
      );
    };
    await waitFor(refused, { message: 'the event' });
    assert.deepEqual(await data(), content);
    await scene.change('sources', 'wanted', { password: 'new' });
    await label('sources', 'a');
    await waitFor(async () => JSON.stringify(await data()) === JSON.stringify(scene.data({ password: 'new' })), {
      message: 'the new content after the label is back',
    });
  });

  it('if Keyferry gets the permissions in a served namespace later, it copies there without a restart', async () => {
    await scene.secret('home', 'late', { password: 'x' });
    await scene.mirror('late', ['bare'], {}, 'home');
    await scene.ready('late', 'SyncError', /namespace bare: Forbidden/, 'home');
    await bind('bare');
    await scene.copied('bare', 'late', { password: 'x' });
    await waitFor(async () => !/bare, where/.test((await operator.probe('/readyz?verbose')).text), {
      timeoutMs: 60_000,
      message: 'the probe to be silent about bare',
    });
  });

  it('if the label of --namespace-selector changes many times, the namespace ends with one watch per kind, and copies according to the last label', async () => {
    await open('flips');
    await scene.secret('home', 'flip', { password: 'x' });
    await scene.mirror('flip', ['flips'], {}, 'home');
    const steady = await watchesIn('home');
    for (let flip = 0; flip < 25; flip += 1) {
      await label('flips', 'a');
      await label('flips', null);
    }
    await label('flips', 'a');
    await scene.copied('flips', 'flip', { password: 'x' });
    await waitFor(async () => (await watchesIn('flips')) === steady, { message: `${steady} watches` });
    await label('flips', null);
    await waitFor(async () => (await watchesIn('flips')) === 0, { message: 'no watch' });
  });

  it('status, plan and explain accept --namespace-selector, but not together with --namespaces', async () => {
    const flags = ['--kubeconfig', kubeconfig];
    const { code, stdout, stderr } = await runProgram(['status', ...flags, SELECTOR, '-o', 'json']);
    assert.equal(code, 0, stderr);
    const seen = statusSchema.parse(JSON.parse(stdout));
    const served = ['bare', 'home', 'one', 'rules', 'sources'];
    assert.equal(seen.notes[0], `Only the namespaces of --namespace-selector are included: ${served.join(', ')}`);
    assert.ok(seen.rules.some(({ name, state }) => name === 'db' && state === 'Active'));
    const explained = await runProgram(['explain', 'secret', 'one/copy', ...flags, SELECTOR]);
    assert.match(explained.stdout, /SecretMirror home\/db/, explained.stderr);
    const manifest = JSON.stringify(await scene.api.get(mirrorPath('db', 'home')));
    // `plan` needs permission to read all kinds of rules, as with `--namespaces`.
    const planned = await runProgram(['plan', '--kubeconfig', scene.plane.kubeconfigPath, SELECTOR, '-'], manifest);
    assert.equal(planned.code, 0, planned.stderr);
    const both = await runProgram(['status', ...flags, SELECTOR, '--namespaces=home']);
    assert.deepEqual([both.code, /--namespaces and --namespace-selector/.test(both.stderr)], [2, true], both.stderr);
  });

  it('status -w shows rules of a namespace that gets the label of --namespace-selector, and notes namespaces that it may not read', async () => {
    await scene.namespaces('unread');
    await label('unread', 'a');
    await using watch = new RunningProgram(['status', '-w', '--kubeconfig', kubeconfig, SELECTOR]);
    await watch.seen('stdout', /Secrets in unread are not included: no permission to list them/);
    await scene.secret('flips', 'rule', { password: 'x' });
    await scene.mirror('rule', ['home'], {}, 'flips');
    await label('flips', 'a');
    await watch.seen('stdout', /rule added {2}SecretMirror flips\/rule /);
    assert.deepEqual(await watch.interrupt(), [0, null]);
    await label('unread', null);
  });

  it('after a restart, Keyferry serves the namespaces with the label of --namespace-selector, and leaves copies elsewhere unchanged', async () => {
    await label('one', null);
    await waitFor(async () => (await watchesIn('one')) === 0, { message: 'the watches in one to end' });
    const before = await copyVersion('one', 'copy');
    await operator.kill9();
    await scene.change('home', 'db', { password: 'again' });
    await start();
    await scene.copied('home', 'copy', { password: 'again' });
    assert.equal(await copyVersion('one', 'copy'), before);
    await label('one', 'a');
    await scene.copied('one', 'copy', { password: 'again' });
  });

  it('if a namespace is deleted while the operator is down, the copies of its rules in other namespaces are deleted', async () => {
    await open('doomed');
    await label('doomed', 'a');
    await annotated('doomed', 'last', { 'k8s-replicator/replicate-to': 'home/last' });
    await waitFor(async () => await scene.find('home', 'last'), { message: 'the pushed copy' });
    await operator.kill9();
    await scene.api.delete(secretPath('doomed', 'last'));
    const path = '/api/v1/namespaces/doomed';
    await scene.api.delete(path);
    // Ends the deletion as the controller manager would do. No controller manager runs here.
    await scene.api.replace(`${path}/finalize`, { ...(await scene.api.get(path)), spec: { finalizers: [] } });
    await scene.gone(path);
    await start();
    await scene.gone(secretPath('home', 'last'));
  });

  it('if the replicator runs alone and serves only some namespaces, /healthz answers 200', async () => {
    for (const flag of [SELECTOR, '--namespaces=home,one']) {
      const alone = await scene.operator({ kubeconfig, args: ['--controllers=replicator', flag] });
      await waitFor(async () => (await alone.probe('/healthz')).status === 200, { message: `/healthz with ${flag}` });
      await alone.kill9();
    }
  });

  it('the operator never reads or writes in a namespace that never had the label of --namespace-selector', () => {
    assert.deepEqual(requests('other'), []);
    assert.deepEqual(
      requests(NAME).filter((request) => /secrets|mirrors|configmaps/.test(request)),
      [],
    );
  });
});
