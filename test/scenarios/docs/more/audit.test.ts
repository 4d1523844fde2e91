/**
 * Checks what docs/audit.md and docs/image-pull-secrets.md say about the API server: the audit policy, the queries,
 * encryption at rest, and the policy for ServiceAccounts. The test takes all manifests and queries from the pages.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { parseAllDocuments } from 'yaml';

import { readCrds } from '../../../../scripts/crd/read-crds.ts';
import { kubernetesMinor } from '../../../servers/catalogue.ts';
import { type ControlPlane, startControlPlane } from '../../../servers/control-plane.ts';
import { Reaper } from '../../../servers/reaper.ts';
import type { TestApi } from '../../../support/api.ts';
import { codeBlocks } from '../../../support/markdown.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { mirror, namespace, secret } from '../../cli/objects.ts';

const ROOT = path.join(import.meta.dirname, '../../../..');
const blocksOf = (page: string) => codeBlocks(readFileSync(path.join(ROOT, page), 'utf8'));
const AUDIT = blocksOf('docs/audit.md');
const VALUE = 'the-value-that-nobody-prints';
const hasJq = spawnSync('jq', ['--version']).status === 0;

const resources = new AsyncDisposableStack();
let plane: ControlPlane;
let ann: TestApi;

before(async () => {
  const folder = await Reaper.shared().temporaryFolder('keyferry-audit-');
  resources.defer(() => Reaper.shared().removeFolder(folder));
  const file = async (name: string): Promise<string> => {
    const text = AUDIT.find(({ mark }) => mark === `file=${name}`)?.text ?? '';
    const target = path.join(folder, name);
    await writeFile(target, text.replace('BASE64-OF-32-RANDOM-BYTES', randomBytes(32).toString('base64')));
    return target;
  };
  plane = await startControlPlane({
    controllerManager: false,
    audit: true,
    users: [{ name: 'ann', groups: ['system:masters'] }],
    apiServerFlags: [
      `--audit-policy-file=${await file('audit-policy.yaml')}`,
      `--encryption-provider-config=${await file('encryption.yaml')}`,
    ],
  });
  resources.defer(() => plane.stop());
  ann = plane.client({ user: 'ann' });
  resources.defer(() => ann.close());
  await plane.api.apply(readCrds());
  await plane.api.apply([namespace('production')]);
});
after(() => resources.disposeAsync());

/** Runs a query of docs/audit.md. @returns the lines that it prints */
async function query(heading: string, index = 0): Promise<string> {
  const text = AUDIT.filter((block) => block.language === 'sh' && block.heading === heading)[index]?.text ?? '';
  assert.ok(text.startsWith('jq '), heading);
  const env = { ...process.env, AUDIT_LOG: plane.auditLogPath };
  return (await promisify(execFile)('bash', ['-o', 'pipefail', '-ec', text], { env })).stdout;
}

describe('the audit log', { skip: hasJq ? false : 'jq is not installed' }, () => {
  it('a query of docs/audit.md shows who wrote a SecretMirror, and the namespaces that it copies to', async () => {
    await ann.create(mirror('mysecret-mirror', 'mysecret', ['team-.*']));
    const heading = 'Who wrote SecretMirrors';
    await waitFor(async () => /\tann\tcreate\tdefault\/mysecret-mirror\n/.test(await query(heading)), {
      message: 'the author in the log',
    });
    assert.match(readFileSync(plane.auditLogPath, 'utf8'), /"requestObject":\{[^\n]*"team-\.\*"/);
  });

  it('a query of docs/audit.md shows who wrote a SyncSecret, and the audit log has none of its values', async () => {
    const metadata = { name: 'app-tls', namespace: 'production' };
    await ann.create({
      apiVersion: 'kubelb.k8c.io/v1alpha1',
      kind: 'SyncSecret',
      metadata,
      stringData: { key: VALUE },
    });
    await ann.create(secret('production', 'plain', VALUE));
    await waitFor(async () => /\tann\tcreate\tproduction\/app-tls\n/.test(await query('Who wrote SecretMirrors', 1)), {
      message: 'the author in the log',
    });
    const log = readFileSync(plane.auditLogPath, 'utf8');
    for (const text of [VALUE, Buffer.from(VALUE).toString('base64')]) assert.ok(!log.includes(text), text);
  });

  it('with the admission policy of docs/audit.md, a query of that page shows who annotated a Secret with a push', async () => {
    const heading = 'Who annotated a Secret';
    const manifests = AUDIT.filter((block) => block.language === 'yaml' && block.heading === heading);
    await plane.api.apply(manifests.map(({ text }) => text).join('\n---\n'));
    let tries = 0;
    // The API server applies a new policy a moment after its creation.
    await waitFor(
      async () => {
        tries += 1;
        const source = secret('production', `annotated-${tries}`, 'x');
        const annotations = { 'k8s-replicator/replicate-to-namespaces': 'team-.*' };
        await ann.create({ ...source, metadata: { ...source.metadata, annotations } });
        return (await query(heading)).includes('ann\tproduction/annotated-');
      },
      { intervalMs: 500, message: 'the annotation in the log' },
    );
    assert.match(await query(heading), /k8s-replicator\/replicate-to-namespaces=team-\.\*\n/);
    const before = (await query(heading)).split('\n').length;
    // This change has nothing to do with the annotation, so the query prints no new line.
    await ann.create(secret('production', 'without', 'x'));
    assert.equal((await query(heading)).split('\n').length, before);
  });
});

describe('encryption at rest with the configuration of docs/audit.md', () => {
  it('with the EncryptionConfiguration of docs/audit.md, etcd stores Secrets and SyncSecrets encrypted', () => {
    const files = globSync('**/*', { cwd: plane.folder, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.(wal|db)$|^db$/.test(entry.name))
      .map((entry) => readFileSync(path.join(entry.parentPath, entry.name)));
    assert.ok(files.length > 0, 'the files of etcd');
    const stored = (text: string): boolean => files.some((bytes) => bytes.includes(text));
    assert.ok(stored('mysecret-mirror'), 'other objects are readable');
    assert.ok(!stored(VALUE));
    assert.ok(!stored(Buffer.from(VALUE).toString('base64')));
  });
});

describe(
  'the policy for image pull secrets',
  { skip: kubernetesMinor() < 36 ? 'needs Kubernetes 1.36' : false },
  () => {
    it('the policy of docs/image-pull-secrets.md adds the Secret to the ServiceAccount `default` of each new namespace', async () => {
      const block = blocksOf('docs/image-pull-secrets.md').find(({ text }) => text.includes('MutatingAdmissionPolicy'));
      const policies = parseAllDocuments(block?.text ?? '').map((document) => document.toJS());
      await plane.api.apply(policies);
      let tries = 0;
      const account = await waitFor(
        async () => {
          tries += 1;
          const name = `billing-${tries}`;
          await plane.api.apply([namespace(name)]);
          const made = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default', namespace: name } };
          const stored = await plane.api.create(made);
          return stored.imagePullSecrets === undefined ? undefined : stored;
        },
        { intervalMs: 500, message: 'the policy to be in force' },
      );
      assert.deepEqual(account.imagePullSecrets, [{ name: 'registry-pull' }]);
      const metadata = { name: 'builder', namespace: account.metadata.namespace };
      const other = await plane.api.create({ apiVersion: 'v1', kind: 'ServiceAccount', metadata });
      assert.equal(other.imagePullSecrets, undefined);
    });
  },
);
