import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createInterface } from 'node:readline';
import { after, before, describe, it } from 'node:test';

import { readCrds } from '../../../scripts/crd/read-crds.ts';
import { TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import { apiServerUrl, type ControlPlaneAccess, tokenOf } from '../control-plane-servers.ts';
import { EtcdClient, keyText } from '../etcd-client.ts';
import { Lender } from './lender.ts';
import { SOCKET_VARIABLE, type Wish } from './protocol.ts';

let lender: Lender;
const borrowers = new Set<Borrower>();
before(async () => (lender = await Lender.open()));
after(async () => {
  for (const borrower of borrowers) borrower.process.kill('SIGKILL');
  await lender.stop();
});

describe('a lent control plane', () => {
  it('after a control plane is returned, nothing is left of what its borrower created, changed or deleted', async () => {
    const first = await borrow();
    const before = await contentOf(first.access);
    using api = clientOf(first.access);
    const groups = JSON.stringify((await api.get('/apis')).groups);
    await useAndChange(api);
    await first.end('return');

    const second = await borrow();
    assert.equal(second.access.layout.folder, first.access.layout.folder, 'these are the same servers');
    assert.deepEqual(await contentOf(second.access), before);
    assert.equal(JSON.stringify((await api.get('/apis')).groups), groups);
    assert.equal((await api.raw('GET', '/apis/mirrors.kts.studio/v1alpha2/secretmirrors')).status, 404);
    await assertLikeNew(api);
    await second.end('return');
  });

  it('the audit log of a lent control plane has no requests of earlier borrowers', async () => {
    const first = await borrow();
    const { auditLog } = first.access.layout;
    using api = clientOf(first.access);
    await api.get('/api/v1/namespaces/default/secrets?of=first');
    await waitFor(async () => (await readFile(auditLog, 'utf8')).includes('of=first'));
    await first.end('return');

    const second = await borrow();
    assert.equal(second.access.layout.auditLog, auditLog);
    await api.get('/api/v1/namespaces/default/secrets?of=second');
    await waitFor(async () => (await readFile(auditLog, 'utf8')).includes('of=second'));
    assert.doesNotMatch(await readFile(auditLog, 'utf8'), /of=first|\0/);
    await second.end('return');
  });

  it('a control plane that is lent with the CRDs has no objects of earlier borrowers, and none of their changes of a CRD', async () => {
    const first = await borrow({ crds: true });
    using api = clientOf(first.access);
    await api.createNamespaces(['team']);
    await api.create(MIRROR);
    await first.end('return');

    const second = await borrow({ crds: true });
    assert.equal(second.access.layout.folder, first.access.layout.folder, 'these are the same servers');
    assert.deepEqual(await api.list(MIRRORS), []);
    const before = await contentOf(second.access);
    await api.createNamespaces(['team']);
    await api.apply(readFileSync(PERMISSIVE_CRD, 'utf8'));
    await waitFor(async () => (await api.raw('POST', MIRRORS, DRY_RUN)).status === 201, {
      message: 'the CRD in force',
    });
    await second.end('return');

    const third = await borrow({ crds: true });
    assert.equal(third.access.layout.folder, first.access.layout.folder, 'these are the same servers');
    await api.createNamespaces(['team']);
    assert.equal((await api.raw('POST', MIRRORS, DRY_RUN)).status, 422);
    await third.end('return');

    const fourth = await borrow({ crds: true });
    assert.deepEqual(Object.keys(await contentOf(fourth.access)), Object.keys(before));
    await fourth.end('return');
  });

  it('the CRDs are deleted from a control plane for a borrower without them, and installed for one with them', async () => {
    const first = await borrow();
    const { folder, auditLog } = first.access.layout;
    using api = clientOf(first.access);
    const before = await contentOf(first.access);
    await first.end('return');

    const second = await borrow({ crds: true });
    assert.equal(second.access.layout.folder, folder, 'these are the same servers');
    assert.doesNotMatch(await readFile(auditLog, 'utf8'), /customresourcedefinitions/);
    await api.createNamespaces(['team']);
    await api.create(MIRROR);
    const bare = await second.again({ crds: false });
    assert.equal(bare.layout.folder, folder, 'these are the same servers');
    assert.deepEqual(await contentOf(bare), before);
    assert.equal((await api.raw('GET', MIRRORS)).status, 404);
    await second.end('return');
  });

  it('if a borrower ends without returning its control plane, the control plane is stopped', async () => {
    const borrower = await borrow();
    await borrower.end('crash');
    await waitFor(() => !existsSync(borrower.access.layout.folder), { message: 'its folder to go' });
  });

  it('if a control plane is returned with an admission webhook, it is stopped, because the API server forgets webhooks late', async () => {
    const borrower = await borrow();
    using api = clientOf(borrower.access);
    await api.create({
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingWebhookConfiguration',
      metadata: { name: 'left' },
    });
    await borrower.end('return');
    await waitFor(() => !existsSync(borrower.access.layout.folder), { message: 'its folder to go' });
  });
});

const MIRRORS = '/apis/mirrors.kts.studio/v1alpha2/namespaces/team/secretmirrors';
const PERMISSIVE_CRD = new URL('../../scenarios/mirrors/permissive-crd.yaml', import.meta.url);
/** Only the CRD of `deploy/` refuses a mirror without spec. */
const DRY_RUN = {
  query: { dryRun: 'All' },
  body: { apiVersion: 'mirrors.kts.studio/v1alpha2', kind: 'SecretMirror', metadata: { name: 'probe' } },
};
const MIRROR = {
  apiVersion: 'mirrors.kts.studio/v1alpha2',
  kind: 'SecretMirror',
  metadata: { name: 'one', namespace: 'team', finalizers: ['example.com/never-removed'] },
  spec: { source: { name: 'one' }, destination: { namespaces: ['default'] } },
};
const ROLE = '/apis/rbac.authorization.k8s.io/v1/clusterroles/system:aggregate-to-view';

/** Makes all kinds of changes that tests make, and some changes that are harder to undo. */
async function useAndChange(api: TestApi): Promise<void> {
  await api.apply(readCrds());
  await api.createNamespaces(['team']);
  await api.create(MIRROR);
  // The object stays in deletion, because nothing removes its finalizer.
  await api.delete(`${MIRRORS}/one`);
  const [metadata, subjects] = [{ name: 'everybody' }, [{ kind: 'Group', name: 'system:authenticated' }]];
  const rbac = 'rbac.authorization.k8s.io';
  const roleRef = { apiGroup: rbac, kind: 'ClusterRole', name: 'cluster-admin' };
  await api.create({ apiVersion: `${rbac}/v1`, kind: 'ClusterRoleBinding', metadata, subjects, roleRef });
  for (const namespace of ['default', 'kube-system', 'team']) {
    await api.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'left', namespace } });
    await api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'left', namespace } });
  }
  await api.patch('/api/v1/namespaces/default', { metadata: { labels: { left: 'behind' } } });
  await api.patch(ROLE, { rules: [] });
  await api.delete('/apis/rbac.authorization.k8s.io/v1/clusterroles/edit');
  // The namespace stays in deletion, because no controller manager empties it.
  await api.delete('/api/v1/namespaces/team');
}

/** Checks that the API server shows none of the changes any more. */
async function assertLikeNew(api: TestApi): Promise<void> {
  const names = async (path: string): Promise<string[]> => (await api.list(path)).map(({ metadata }) => metadata.name);
  assert.deepEqual(await names('/api/v1/namespaces'), ['default', 'kube-node-lease', 'kube-public', 'kube-system']);
  assert.deepEqual(await names('/api/v1/secrets'), []);
  assert.deepEqual(await names('/api/v1/serviceaccounts'), []);
  assert.equal((await api.get('/api/v1/namespaces/default')).metadata.labels.left, undefined);
  assert.ok((await api.get(ROLE)).rules.length > 0);
  const spec = {
    user: 'somebody',
    groups: ['system:authenticated'],
    resourceAttributes: { verb: 'get', resource: 'secrets' },
  };
  const body = { apiVersion: 'authorization.k8s.io/v1', kind: 'SubjectAccessReview', spec };
  const { status } = await api.call('POST', '/apis/authorization.k8s.io/v1/subjectaccessreviews', { body });
  assert.equal(status.allowed, false);
}

/** The content of etcd, except keys that the API server changes by itself. */
async function contentOf({ layout }: ControlPlaneAccess): Promise<Record<string, string>> {
  using etcd = new EtcdClient(layout.etcdPort);
  const entries = await etcd.list('/registry/');
  const renewed = /^\/registry\/(leases|ranges|configmaps|flowschemas|prioritylevelconfigurations|apiregistration)/;
  const digest = (value: string): string => createHash('sha256').update(value).digest('hex').slice(0, 12);
  return Object.fromEntries(
    entries
      .filter((entry) => !/^\/registry\/(masterleases|peerserverleases)\//.test(keyText(entry)))
      .map((entry) => [keyText(entry), renewed.test(keyText(entry)) ? 'renewed' : digest(entry.value)]),
  );
}

function clientOf(access: ControlPlaneAccess): TestApi {
  return new TestApi({
    url: apiServerUrl(access),
    caPem: access.authority.certPem,
    token: tokenOf(access, 'admin'),
  });
}

interface Borrower {
  readonly access: ControlPlaneAccess;
  readonly process: ChildProcess;
  /** The process returns the control plane and borrows again. @returns what it gets */
  readonly again: (wish: Wish) => Promise<ControlPlaneAccess>;
  /** Ends the borrower's process, with or without returning the control plane. */
  readonly end: (how: 'return' | 'crash') => Promise<void>;
}

const SCRIPT = `
const { borrow } = await import('./borrower.ts');
let loan;
const lend = async (wish) => console.log(JSON.stringify((loan = await borrow(JSON.parse(wish))).access));
await lend(process.argv[1]);
for await (const how of process.stdin) {
  if (how.toString() === 'crash') process.kill(process.pid, 'SIGKILL');
  await loan.stop();
  if (how.toString() !== 'return') await lend(how);
}
`;

/** Borrows a control plane in a separate process, as a test file does. */
async function borrow(wish: Wish = { crds: false }): Promise<Borrower> {
  const child = spawn(process.execPath, ['--input-type=module', '-e', SCRIPT, JSON.stringify(wish)], {
    cwd: import.meta.dirname,
    env: { ...process.env, [SOCKET_VARIABLE]: lender.path },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const offers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const offered = async (): Promise<ControlPlaneAccess> =>
    JSON.parse((await offers.next()).value as string) as ControlPlaneAccess;
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const borrower: Borrower = {
    access: await offered(),
    process: child,
    again: (wish) => {
      child.stdin.write(JSON.stringify(wish));
      return offered();
    },
    end: async (how) => {
      child.stdin.end(how);
      await ended;
      borrowers.delete(borrower);
    },
  };
  borrowers.add(borrower);
  return borrower;
}
