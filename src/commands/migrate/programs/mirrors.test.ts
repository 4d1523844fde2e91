/** Checks what `migrate` reports on SecretMirrors whose patterns mean more namespaces to the original. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { KubeApi } from '../../../kube/api.ts';
import { ApiError } from '../../../kube/errors.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';
import { mirrorsMigration } from './mirrors.ts';

/** The findings on a mirror with this destination, in a cluster with the namespaces `web` and `web-sandbox`. */
async function findings(destination: object): Promise<string[]> {
  const metadata = { name: 'm', namespace: 'home', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
  const list = { metadata: { resourceVersion: '1' }, items: [{ metadata, spec: { destination } }] };
  const api: KubeApi = {
    cluster: 'c',
    request: async ({ method, path }) => {
      if (path.endsWith('/secretmirrors')) return { status: 200, body: Buffer.from(JSON.stringify(list)) };
      throw await Promise.resolve(new ApiError({ method, path }, 404, { reason: 'NotFound', message: '', causes: [] }));
    },
    stream: () => assert.fail('not used'),
  };
  const { config } = ruleScope();
  const found = await mirrorsMigration.find({
    api,
    config,
    objects: new Map(),
    namespaces: ['web', 'web-sandbox'],
    signal: undefined,
  } as unknown as Parameters<typeof mirrorsMigration.find>[0]);
  return found.findings.map(({ text }) => text);
}

test('if a pattern matches only a part of a namespace name, migrate reports the namespace, but not if the mirror excludes it', async () => {
  const [text, ...more] = await findings({ namespaces: ['web'] });
  assert.match(text ?? '', /^its patterns match only a part of web-sandbox: /);
  assert.deepEqual(more, []);
  assert.deepEqual(await findings({ namespaceSelector: {}, excludedNamespaces: ['web-.*'] }), []);
  assert.deepEqual(await findings({ namespaces: ['web.*'], excludedNamespaces: ['web-.*'] }), []);
});
