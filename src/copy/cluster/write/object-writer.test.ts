/**
 * Checks that a write is refused if its object was recreated or changed after the plan, and that the error quotes no
 * secret values.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { type ControlPlane, startControlPlane } from '../../../../test/servers/control-plane.ts';
import { refuse } from '../../../../test/scenarios/engine/admission.ts';
import type { Json } from '../../../../test/support/api.ts';
import { clientOf } from '../../../../test/support/kube-client.ts';
import type { HttpKubeApi } from '../../../kube/http.ts';
import { ApiError, ConnectionError, isConflict } from '../../../kube/errors.ts';
import { Content } from '../../model/content.ts';
import { SECRET } from '../../model/kind.ts';
import { KubeStore } from '../objects/store.ts';
import { ObjectWriter } from './object-writer.ts';
import { observe, type Observed } from '../../model/observed.ts';
import type { DesiredObject } from '../../model/claim.ts';

const MARK = 'example.com/owner';
const LABEL = 'example.com/copy';

let plane: ControlPlane;
let api: HttpKubeApi;
let store: KubeStore;
let writer: ObjectWriter;

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  api = await clientOf(plane);
  store = new KubeStore({ api, kind: SECRET, onChange: () => undefined, onKnown: () => undefined });
  writer = new ObjectWriter(store);
});
after(async () => {
  await store.stop();
  await api[Symbol.asyncDispose]();
  await plane.stop();
});

const path = (name: string): string => `/api/v1/namespaces/default/secrets/${name}`;
const base64 = (text: string): string => Buffer.from(text).toString('base64');

/** Creates a Secret with labels and annotations, so that a JSON patch of one of them finds the map that it changes. */
const create = async (name: string, text: string, mark: string): Promise<Json> =>
  await plane.api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    data: { a: base64(text) },
    metadata: { name, namespace: 'default', labels: { [LABEL]: 'x' }, annotations: { [MARK]: mark } },
  });

const content = Content.ofFields(SECRET, { data: { a: base64('ours') } }, 'Opaque', '1');
const desired: DesiredObject = {
  kind: 'be',
  labels: { [LABEL]: 'y' },
  annotations: { [MARK]: 'rule' },
  bookkeeping: { 'example.com/at': 'now' },
  data: 'source',
};

/** The changes that a user makes between Keyferry's read of a copy and its write, by title. */
const CHANGES: Readonly<Record<string, (name: string) => Promise<unknown>>> = {
  'was replaced by an object with another mark': async (name) => {
    await plane.api.delete(path(name));
    await create(name, 'theirs', 'other');
  },
  'was replaced by an object with the same mark': async (name) => {
    await plane.api.delete(path(name));
    await create(name, 'theirs', 'rule');
  },
  'lost its mark': async (name) =>
    await plane.api.patch(path(name), { metadata: { annotations: { [MARK]: null, 'example.com/other': 'x' } } }),
  'its data edited': async (name) => await plane.api.patch(path(name), { data: { a: base64('theirs') } }),
};

const WRITES: Readonly<Record<string, (name: string, observed: Observed, signal: AbortSignal) => Promise<unknown>>> = {
  'an update with data': async (name, observed, signal) =>
    await writer.update(store.key('default', name), observed, desired, content, signal),
  'an update of metadata alone': async (name, observed, signal) =>
    await writer.update(store.key('default', name), observed, { ...desired, data: 'keep' }, undefined, signal),
  'a deletion': async (name, observed, signal) => await writer.delete(store.key('default', name), observed, signal),
};

let count = 0;
for (const [what, write] of Object.entries(WRITES)) {
  describe(`${what} of a copy that users change`, () => {
    for (const [title, change] of Object.entries(CHANGES)) {
      it(`${what} is refused if the copy ${title} after the read, and the object there stays as it is`, async () => {
        const name = `copy-${(count += 1)}`;
        const observed = observe((await create(name, 'ours', 'rule')).metadata);
        await change(name);
        const theirs = await plane.api.get(path(name));
        await assert.rejects(write(name, observed, new AbortController().signal), isConflict);
        assert.deepEqual(await plane.api.find(path(name)), theirs);
      });
    }

    it(`${what} is accepted if nobody changed the copy after the read`, async () => {
      const name = `copy-${(count += 1)}`;
      const { metadata } = await create(name, 'ours', 'rule');
      await write(name, observe(metadata), new AbortController().signal);
      assert.notEqual((await plane.api.find(path(name)))?.metadata.resourceVersion, metadata.resourceVersion);
    });
  });
}

describe('the error of a write that a webhook refuses with a message that quotes secret values', () => {
  const OLD = 'the-old-value';
  const NEW = 'the-new-value';

  for (const isRead of [true, false]) {
    it(`if a refusal quotes secret values, the error has none of them, ${isRead ? 'because the old values were read and removed' : 'even if the old values cannot be read'}`, async () => {
      const name = isRead ? 'quoted' : 'quoted-unread';
      const observed = observe((await create(name, OLD, 'rule')).metadata);
      await using _ = await refuse(plane.api, name, {
        when: `request.name == '${name}'`,
        words: `'not ' + string(object.data.a) + ' for ' + string(oldObject.data.a)`,
        operations: ['UPDATE'],
      });
      const unread = new KubeStore({
        api: {
          cluster: api.cluster,
          stream: async (request) => await api.stream(request),
          request: async (request) => {
            if (request.method === 'GET' && !isRead) throw new ConnectionError('ECONNRESET', 'no answer');
            return await api.request(request);
          },
        },
        kind: SECRET,
        onChange: () => undefined,
        onKnown: () => undefined,
      });
      const wanted = Content.ofFields(SECRET, { data: { a: base64(NEW) } }, 'Opaque', '1');
      const write = new ObjectWriter(unread).update(
        unread.key('default', name),
        observed,
        desired,
        wanted,
        new AbortController().signal,
      );
      await assert.rejects(write, (error: unknown) => {
        assert.ok(error instanceof ApiError);
        const text = `${error.message} ${JSON.stringify(error)} ${error.stack}`;
        for (const value of [OLD, NEW].flatMap((one) => [one, base64(one)]))
          assert.ok(!text.includes(value), `${value} in: ${text}`);
        assert.ok(text.includes('422') || /invalid|refused|denied|not/i.test(text), text);
        return true;
      });
      await unread.stop();
    });
  }
});
