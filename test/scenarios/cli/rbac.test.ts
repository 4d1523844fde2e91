/** deploy/rbac.yaml: enough for the whole first scenario, and nothing in it that is never used. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { parseAllDocuments } from 'yaml';

import { crds } from '../../../src/cli/crds.ts';
import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { waitFor } from '../../support/wait-for.ts';
import { mirror, namespace, secret } from './objects.ts';
import { startOperator } from './operator-process.ts';

const RBAC = path.join(import.meta.dirname, '../../../deploy/rbac.yaml');
const USER = 'system:serviceaccount:keyferry:keyferry';
const MIRROR = '/apis/mirrors.kts.studio/v1alpha2/namespaces/default/secretmirrors/mysecret-mirror';
/** An event that repeats after minutes; and servers that cannot stream a first list (before Kubernetes 1.34) are asked for pages. */
const SELDOM = new Set(['events patch', 'namespaces list', 'secrets list', 'secretmirrors list']);

/** For those who use more than SecretMirrors between namespaces; the latter has a test of its own. */
const OPTIONAL = new Set(['keyferry-replicator', 'keyferry-vault-kubernetes-auth']);

interface Role {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly rules?: readonly { readonly apiGroups: string[]; readonly resources: string[]; readonly verbs: string[] }[];
}

interface AuditLine {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly apiGroup?: string; readonly resource: string; readonly subresource?: string };
  readonly responseStatus?: { readonly code: number };
  readonly requestURI: string;
}

describe('deploy/rbac.yaml', () => {
  let plane: ControlPlane;
  before(async () => {
    const groups = ['system:serviceaccounts', 'system:serviceaccounts:keyferry', 'system:authenticated'];
    plane = await startControlPlane({ controllerManager: false, audit: true, users: [{ name: USER, groups }] });
  });
  after(() => plane.stop());

  it('lets a ServiceAccount do all that SecretMirrors need, and no more', async () => {
    const manifest = await readFile(RBAC, 'utf8');
    await plane.api.apply(crds());
    await plane.api.apply(manifest);
    const kubeconfig = await plane.writeKubeconfig({ token: plane.tokenFor(USER) });
    const operator = await startOperator(plane, kubeconfig);
    try {
      await firstScenario();
    } finally {
      await operator.stop();
    }
    const { used, refused } = await requests();
    assert.deepEqual(refused, []);
    const granted = grantedBy(parseAllDocuments(manifest).map((document) => document.toJS() as Role));
    assert.deepEqual(
      [...used].filter((call) => !granted.has(call)),
      [],
      'done without a rule',
    );
    const idle = [...granted].filter((call) => !used.has(call) && !SELDOM.has(call));
    assert.deepEqual(idle, [], 'granted and never used');
  });

  async function firstScenario(): Promise<void> {
    const { api } = plane;
    const copy = (where: string): string => `/api/v1/namespaces/${where}/secrets/mysecret`;
    await api.create(mirror('mysecret-mirror', 'mysecret', ['project-a-.+', 'project-b-.+']));
    await waitFor(async () => (await api.get(MIRROR)).status?.mirrorStatus === 'Pending');
    await api.create(secret('default', 'mysecret', 'one'));
    await waitFor(async () => (await api.get(MIRROR)).status?.mirrorStatus === 'Active');
    for (const name of ['project-a-main', 'project-b-main']) {
      await api.create(namespace(name));
      await waitFor(async () => await api.find(copy(name)), { message: copy(name) });
    }
    await api.patch(copy('default'), { stringData: { password: 'two' } });
    const two = Buffer.from('two').toString('base64');
    await waitFor(async () => (await api.get(copy('project-a-main'))).data.password === two);
    await api.patch(MIRROR, { spec: { destination: { namespaces: ['project-a-.+'] } } });
    await waitFor(async () => (await api.find(copy('project-b-main'))) === undefined, { message: 'a copy to go' });
    await api.delete(MIRROR);
    await waitFor(async () => (await api.find(MIRROR)) === undefined, { message: 'the mirror to go' });
    assert.equal(await api.find(copy('project-a-main')), undefined);
  }

  /** What our user has done, as `resource verb`, and what it was refused. */
  async function requests(): Promise<{ used: ReadonlySet<string>; refused: readonly string[] }> {
    const used = new Set<string>();
    const refused: string[] = [];
    for (const line of (await readFile(plane.auditLogPath, 'utf8')).trim().split('\n')) {
      const { user, verb, objectRef, responseStatus, requestURI } = JSON.parse(line) as AuditLine;
      if (user.username !== USER || objectRef === undefined) continue;
      const { resource, subresource } = objectRef;
      used.add(`${resource}${subresource === undefined ? '' : `/${subresource}`} ${verb}`);
      if (responseStatus?.code === 403) refused.push(`${verb} ${requestURI}`);
    }
    return { used, refused };
  }
});

function grantedBy(objects: readonly Role[]): ReadonlySet<string> {
  const granted = new Set<string>();
  for (const { kind, metadata, rules = [] } of objects) {
    if (!kind.endsWith('Role') || OPTIONAL.has(metadata.name)) continue;
    for (const { resources, verbs } of rules) {
      for (const resource of resources) for (const verb of verbs) granted.add(`${resource} ${verb}`);
    }
  }
  return granted;
}
