/** What becomes of a copy that nobody wants and that changes while its owner is looked up, on a real API server. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { type ControlPlane, startControlPlane } from '../../test/servers/control-plane.ts';
import { clientOf } from '../../test/support/kube-client.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import type { HttpKubeApi } from '../kube/http.ts';
import { ClaimBook } from './claim-book.ts';
import type { RuleKey } from './keys.ts';
import { SECRET } from './kind.ts';
import { KubeStore } from './kube-store.ts';
import { KubeTargets } from './kube-targets.ts';
import type { Observed } from './observed.ts';
import { SourceRouter } from './sources.ts';

const MARK = 'example.com/owner';
const STAYS = 'example.com/stays';

let plane: ControlPlane;
let api: HttpKubeApi;
let store: KubeStore;

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  api = await clientOf(plane);
  store = new KubeStore({ api, kind: SECRET, onChange: () => undefined, onKnown: () => undefined });
  await store.focus.keepWide(({ annotations }) => annotations?.[MARK] !== undefined).synced;
});
after(async () => {
  await store.stop();
  await api[Symbol.asyncDispose]();
  await plane.stop();
});

const path = (name: string): string => `/api/v1/namespaces/default/secrets/${name}`;

/** A copy of `gone`, and what is said of each owner: `gone` wants nothing, and changes meanwhile as `edit` says. */
async function unwanted(name: string, edit: Readonly<Record<string, string>>): Promise<readonly RuleKey[]> {
  const asked: RuleKey[] = [];
  const targets = new KubeTargets({
    store,
    book: new ClaimBook(),
    sources: new SourceRouter(),
    cycleOf: () => undefined,
    ownerOf: ({ annotations }) => annotations[MARK],
    fateOf: async (rule: RuleKey, _target, observed: Observed) => {
      asked.push(rule);
      if (asked.length === 1) {
        await plane.api.patch(path(name), { metadata: { annotations: edit } });
        const [[key, value] = ['', '']] = Object.entries(edit);
        await waitFor(() => store.index.get('default', name)?.annotations[key] === value, { message: 'the edit' });
      }
      return rule === 'rules:gone' && observed.annotations[STAYS] !== 'true' ? 'delete' : 'keep';
    },
    onOutcome: () => undefined,
    onWrite: () => undefined,
    now: () => Date.now(),
  });
  await plane.api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace: 'default', annotations: { [MARK]: 'rules:gone' } },
  });
  await waitFor(() => store.index.get('default', name), { message: 'the copy to be known' });
  await targets.reconcile(store.key('default', name), new AbortController().signal);
  return asked;
}

describe('a copy whose owner is gone, changed while that was found out', () => {
  it('stays, if it says so by now', async () => {
    await unwanted('told-to-stay', { [STAYS]: 'true' });
    assert.ok(await plane.api.find(path('told-to-stay')));
  });

  it('stays, if it is another owner’s by now', async () => {
    const asked = await unwanted('handed-on', { [MARK]: 'rules:there' });
    assert.ok(await plane.api.find(path('handed-on')));
    assert.deepEqual(asked, ['rules:gone', 'rules:there']);
  });

  it('goes, if the change says nothing of that', async () => {
    await unwanted('touched', { 'example.com/other': 'x' });
    assert.equal(await plane.api.find(path('touched')), undefined);
  });
});
