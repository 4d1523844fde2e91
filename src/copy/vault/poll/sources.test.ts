/** Checks that a source that is unfollowed during its poll leaves no session open. Uses an API server, but no Vault. */
import assert from 'node:assert/strict';
import { after, before, mock, test } from 'node:test';

import { type ControlPlane, startControlPlane } from '../../../../test/servers/control-plane.ts';
import { fixRandom } from '../../../../test/support/fixed-random.ts';
import { clientOf } from '../../../../test/support/kube-client.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import type { KubeApi } from '../../../kube/api.ts';
import type { HttpKubeApi } from '../../../kube/http.ts';
import { systemClock as clock } from '../../../runtime/clock.ts';
import { VaultSessions } from '../../../vault/session/sessions.ts';
import { SECRET } from '../../model/kind.ts';
import { KubeStore } from '../../cluster/objects/store.ts';
import { VaultAccess } from '../access/access.ts';
import { VaultCredentials } from '../access/credentials.ts';
import { VaultLocations, type VaultLocation, vaultSourceKey } from '../locations.ts';
import { VaultLeases } from '../leases/leases.ts';
import { VaultSources } from './sources.ts';
import { asKey } from '../../../../test/support/keys.ts';
import type { RuleKey } from '../../model/keys.ts';
import { parseServer } from '../../../vault/client/server.ts';

const RULE: RuleKey = asKey('mirrors:default/mirror');
const LOCATION: VaultLocation = {
  // No server listens at this address.
  server: parseServer({ addr: 'http://127.0.0.1:1' }),
  auth: { method: 'token', token: { namespace: 'default', name: 'token', key: 'token' } },
  path: 'secret/data/app',
  encoding: 'plain',
  secretType: 'Opaque',
};

let plane: ControlPlane;
let api: HttpKubeApi;

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  api = await clientOf(plane);
  const metadata = { namespace: 'default', name: 'token' };
  await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: { token: 'x' } });
});
after(async () => {
  await api[Symbol.asyncDispose]();
  await plane.stop();
});

test('if a source is unfollowed during its poll, the session of the poll is closed, and no error is reported', async () => {
  fixRandom(0);
  let onRead = (): void => undefined;
  const watched: KubeApi = {
    cluster: api.cluster,
    stream: (request) => api.stream(request),
    request: async (request) => {
      onRead();
      return await api.request(request);
    },
  };
  const store = new KubeStore({ api: watched, kind: SECRET, onChange: () => undefined, onKnown: () => undefined });
  const sessions = new VaultSessions({ clock, lingerMs: 10 });
  const credentials = new VaultCredentials(store);
  const acquired = mock.method(sessions, 'acquire');
  const access = new VaultAccess({ sessions, credentials });
  const locations = new VaultLocations(() => undefined);
  const leases = new VaultLeases({
    clock,
    leaseRecordOf: () => undefined,
    readCopy: async () => await Promise.resolve(undefined),
    onEvent: () => undefined,
    onUncertain: () => undefined,
    onRevokeFailed: () => undefined,
  });
  let letGo = false;
  const onError = (): void => assert.fail('no error for an entry that is not followed');
  const common = { locations, access, credentials, leases, clock };
  const sources = new VaultSources({ ...common, onChange: () => undefined, onError });
  const key = vaultSourceKey(LOCATION, RULE);
  try {
    const secret = store.key('default', 'token');
    store.follow(secret);
    await waitFor(() => store.view(secret).state === 'present', { message: 'the credential to be known' });
    locations.set(RULE, [{ key, location: LOCATION, pollSeconds: 60 }]);
    onRead = () => {
      letGo = true;
      sources.unfollow(key);
    };
    sources.follow(key);
    await waitFor(() => letGo, { message: 'the poll to read the credential' });
    await waitFor(() => sources.queues.every(({ queue }) => queue.metrics().depth === 0), {
      message: 'the poll to end',
    });
    const isClosed = (): boolean => acquired.mock.calls[0]?.result?.session.state === 'closed';
    await waitFor(isClosed, { message: 'a session to be opened, and closed again' });
    assert.deepEqual([...credentials.usersOf(secret)], []);
  } finally {
    await sources.stop(0);
    await sessions.stop();
    await store.stop();
  }
});
