/**
 * With `--namespaces`, Keyferry serves a list of namespaces, with a Role in each. If one of them is gone or has no Role,
 * the others are served.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { parse } from 'yaml';

import type { Json } from '../../../support/api.ts';
import { readAuditLog } from '../../../support/audit-log.ts';
import { Keyferry, type KeyferryOptions } from '../../../support/keyferry.ts';
import { waitForRights } from '../../../support/permissions.ts';
import { requestToken, serviceAccountUser } from '../../../support/service-account.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { labels, MirrorScene, secretPath } from '../../mirrors/support.ts';

const NAME = 'keyferry';
const USER = serviceAccountUser(NAME, NAME);
const RBAC = 'rbac.authorization.k8s.io';
const RULES = new URL('../../../../deploy/helm/keyferry/files/rules/', import.meta.url);

describe('keyferry run --namespaces', () => {
  let scene: MirrorScene;
  let kubeconfig: string;

  const options = (...namespaces: readonly string[]): KeyferryOptions => {
    return { kubeconfig, args: ['--controllers=mirrors,replicator', `--namespaces=${namespaces.join(',')}`] };
  };
  /** Gives Keyferry a Role in a namespace, as the chart does. */
  const permit = async (namespace: string): Promise<void> => {
    const rules = ['copies', 'mirrors', 'replicator'].flatMap((file): Json[] =>
      parse(readFileSync(new URL(`${file}.yaml`, RULES), 'utf8')),
    );
    const metadata = { name: NAME, namespace };
    const apiVersion = `${RBAC}/v1`;
    const roleRef = { apiGroup: RBAC, kind: 'Role', name: NAME };
    const subjects = [{ kind: 'ServiceAccount', name: NAME, namespace: NAME }];
    await scene.api.apply([
      { apiVersion, kind: 'Role', metadata, rules },
      { apiVersion, kind: 'RoleBinding', metadata, roleRef, subjects },
    ]);
    await waitForRights(scene.api, { user: USER, groups: [] }, namespace, ['core/secrets: list']);
  };

  before(async () => {
    scene = await MirrorScene.open({ controllerManager: false, audit: true });
    await scene.namespaces(NAME, 'home', 'one', 'other');
    await scene.api.apply([{ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: NAME, namespace: NAME } }]);
    kubeconfig = await scene.plane.writeKubeconfig({
      token: await requestToken(scene.api, NAME, NAME),
      namespace: NAME,
    });
  });

  after(async () => {
    await scene.close();
  });

  it('if no namespace of --namespaces has a Role, the operator is not ready and says what is missing, and works when the Roles exist', async () => {
    await using operator = await Keyferry.start(options('home', 'one'));
    const advice = /--namespaces names the namespace home, where Keyferry has no permission to watch secretmirrors/;
    await waitFor(async () => advice.test((await operator.probe('/readyz')).text), { message: () => operator.output });
    assert.equal((await operator.probe('/readyz')).status, 503);
    await permit('home');
    await permit('one');
    await operator.ready();
  });

  it('if one namespace of --namespaces is gone, the others are served, log and probe name it, and it is served when it has its Role', async () => {
    await scene.secret('home', 'db', { password: 'x' });
    await scene.mirror('db', ['home', 'one', 'gone'], { destination: { name: 'copy' } }, 'home');
    const operator = await scene.operator(options('home', 'gone', 'one'));
    for (const namespace of ['home', 'one']) await scene.copied(namespace, 'copy', { password: 'x' });
    const { status, text } = await operator.probe('/readyz?verbose');
    assert.equal(status, 200, text);
    assert.match(text, /names the namespace gone, where Keyferry has no permission to watch secrets: bind its Role/);
    const warnings = operator.logs().filter(({ level, advice }) => level === 'warn' && /gone/.test(advice));
    // One warning for each watch. Later tries of a watch are not logged.
    assert.ok(warnings.length > 0 && warnings.length <= 4, JSON.stringify(warnings));
    await scene.ready('db', 'SyncError', /namespace gone: Forbidden/, 'home');

    await scene.namespaces('gone');
    await permit('gone');
    await scene.copied('gone', 'copy', { password: 'x' }, 60_000);
    await scene.secret('gone', 'late', { password: 'y' });
    await scene.mirror('late', ['one'], {}, 'gone');
    await waitFor(async () => (await scene.find('one', 'late')) !== undefined, {
      timeoutMs: 60_000,
      message: () => `the copy of a rule in the namespace that came back\n${operator.output}`,
    });
  });

  it('after a restart with fewer namespaces, copies of rules in a namespace that is left out stay, even if the rules are deleted', async () => {
    const pushed = { 'k8s-replicator/replicate-to': 'home/pushed' };
    await scene.secret('one', 'pushed', { password: 'x' }, { metadata: { annotations: pushed } });
    await waitFor(async () => await scene.find('home', 'pushed'), { message: 'the pushed copy' });
    for (const earlier of scene.operators) await earlier.stop();
    const less = await scene.operator(options('home'));
    await scene.api.delete(secretPath('one', 'pushed'));
    // Makes the operator decide on the copy: the copy is changed, and another copy is written later.
    await scene.api.patch(secretPath('home', 'pushed'), labels({ touched: 'yes' }));
    await scene.change('home', 'db', { password: 'z' });
    await scene.copied('home', 'copy', { password: 'z' });
    assert.ok(await scene.find('home', 'pushed'), less.output);
    await scene.copied('one', 'copy', { password: 'x' });
  });

  it('if the replicator runs alone with --namespaces, /healthz answers 200', async () => {
    const alone = await scene.operator({ kubeconfig, args: ['--controllers=replicator', '--namespaces=home,one'] });
    await waitFor(async () => (await alone.probe('/healthz')).status === 200, { message: '/healthz' });
  });

  it('the operator reads and writes nothing in a namespace that --namespaces does not name', async () => {
    const entries = readAuditLog(scene.plane, USER);
    const requests = (namespace: string) => entries.filter(({ uri }) => uri.includes(`/namespaces/${namespace}/`));
    assert.ok(requests('home').length > 0);
    assert.deepEqual(requests('other'), []);
  });
});
