/** Users change a copy while a run of the reconciler sends its requests. With a real API server. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import { userCause } from '../../model/cause.ts';
import { type ControlPlane, startControlPlane } from '../../../../test/servers/control-plane.ts';
import { clientOf } from '../../../../test/support/kube-client.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import type { KubeApi } from '../../../kube/api.ts';
import type { OnObjectChange } from '../../engine/backend.ts';
import type { HttpKubeApi } from '../../../kube/http.ts';
import type { Claim, DesiredState, Shape } from '../../model/claim.ts';
import { ClaimBook } from '../../book/claim-book.ts';
import type { RuleKey } from '../../model/keys.ts';
import { SECRET } from '../../model/kind.ts';
import { KubeStore } from '../objects/store.ts';
import type { TargetReconcilerOptions } from './target-actions.ts';
import { TargetReconciler } from './target-reconciler.ts';
import type { Observed } from '../../model/observed.ts';
import { stubBackend } from '../../../../test/support/stub-backend.ts';
import { asKey } from '../../../../test/support/keys.ts';
import { NO_CYCLES } from '../../../../test/support/no-cycles.ts';

const MARK = 'example.com/owner';
const STAYS = 'example.com/stays';

let plane: ControlPlane;
let api: HttpKubeApi;
/** The API server, with the interruptions. */
let interrupted: KubeApi;
let store: KubeStore;
/** By HTTP method: a function that runs one time, before the next request with this method. */
const interruptions = new Map<string, () => Promise<unknown>>();
/** The HTTP methods of the requests for Secrets, in order of time. */
const requests: string[] = [];
/** Hears of each change of an object. */
let changed: TargetReconciler | undefined;
/** For each reported outcome, in order of time: whether a write was reported with it. */
const wrote: boolean[] = [];

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  api = await clientOf(plane);
  interrupted = {
    cluster: api.cluster,
    stream: async (request) => await api.stream(request),
    request: async (request) => {
      requests.push(request.method);
      const interrupt = interruptions.get(request.method);
      interruptions.delete(request.method);
      await interrupt?.();
      return await api.request(request);
    },
  };
  store = new KubeStore({
    api: interrupted,
    kind: SECRET,
    onChange: (...change) => changed?.objectChanged(...change),
    onKnown: () => undefined,
  });
  await store.watches.watchAll(({ annotations }) => annotations?.[MARK] !== undefined).synced;
});
after(async () => {
  await store.stop();
  await api[Symbol.asyncDispose]();
  await plane.stop();
});

const path = (name: string): string => `/api/v1/namespaces/default/secrets/${name}`;

const targetsOf = (
  book: ClaimBook,
  orphanActionOf: TargetReconcilerOptions['orphanActionOf'],
  graceMs?: number,
  own = store,
  onChange: OnObjectChange = () => undefined,
  sources: TargetReconcilerOptions['sources'] = stubBackend('c').sourcesOf(asKey('c:Secret/default/x')),
): TargetReconciler =>
  new TargetReconciler({
    store: own,
    reachability: undefined,
    claims: {
      book,
      ownersOf: ({ annotations: { [MARK]: owner } }) => (owner === undefined ? [] : [asKey(owner)]),
      graceLeft: () => graceMs,
      wanted: () => undefined,
      versionOf: () => undefined,
    },
    cycles: NO_CYCLES,
    sources,
    hasNamespace: () => true,
    orphanActionOf,
    onTried: () => undefined,
    onChange,
    onOutcome: (_entry, isWritten) => wrote.push(isWritten),
    onWrite: () => undefined,
    now: () => Date.now(),
  });

/** Reconciles a copy of the deleted rule `gone`. While the rule is read, a user sets the copy's annotations `edit`. */
async function reconcileOrphan(name: string, edit: Readonly<Record<string, string>>): Promise<readonly RuleKey[]> {
  const owners: RuleKey[] = [];
  const targets = targetsOf(new ClaimBook(), async (rule: RuleKey, _target, observed: Observed) => {
    owners.push(rule);
    if (owners.length === 1) {
      await plane.api.patch(path(name), { metadata: { annotations: edit } });
      const [[key, value] = ['', '']] = Object.entries(edit);
      await waitFor(() => store.index.get('default', name)?.annotations[key] === value, { message: 'the edit' });
    }
    return rule === 'rules:gone' && observed.annotations[STAYS] !== 'true' ? 'delete' : 'keep';
  });
  await plane.api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace: 'default', annotations: { [MARK]: 'rules:gone' } },
  });
  await waitFor(() => store.index.get('default', name), { message: 'the copy to be known' });
  await targets.reconcile(store.key('default', name), new AbortController().signal);
  return owners;
}

describe('an orphan that is changed during the read of its owner', () => {
  it('an orphan stays if a user marks it as retained while Keyferry reads its owner', async () => {
    await reconcileOrphan('kept', { [STAYS]: 'true' });
    assert.ok(await plane.api.find(path('kept')));
  });

  it('an orphan stays if its mark is changed to another owner while Keyferry reads the first owner', async () => {
    const owners = await reconcileOrphan('other-owner', { [MARK]: 'rules:there' });
    assert.ok(await plane.api.find(path('other-owner')));
    assert.deepEqual(owners, ['rules:gone', 'rules:there']);
  });

  it('an orphan is deleted if another annotation of it changes while Keyferry reads its owner', async () => {
    await reconcileOrphan('touched', { 'example.com/other': 'x' });
    assert.equal(await plane.api.find(path('touched')), undefined);
  });
});

it('an orphan whose source may come back is decided again when its grace is over, and not before', async () => {
  const metadata = { name: 'grace', namespace: 'default', annotations: { [MARK]: 'rules:gone' } };
  await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata });
  await waitFor(() => store.index.get('default', 'grace'), { message: 'the copy to be known' });
  const targets = targetsOf(new ClaimBook(), () => assert.fail('not asked'), 4000);
  const result = await targets.reconcile(store.key('default', 'grace'), new AbortController().signal);
  assert.deepEqual(result, { requeueAfterMs: 4000 });
});

describe('a write after another client wrote the object first', () => {
  const RULE: RuleKey = asKey('rules:there');
  const { signal } = new AbortController();
  let value = 'one';

  /** Reconciles a copy, and returns the outcome of its claim and the requests. */
  async function reconcile(name: string): Promise<readonly [state: string | undefined, requests: readonly string[]]> {
    const book = new ClaimBook();
    const owner = { key: RULE, title: RULE, rank: '' };
    const shape: Shape = {
      id: '',
      desiredState: () => {
        const annotations = { [MARK]: RULE, 'example.com/value': value };
        return { kind: 'be', labels: {}, annotations, bookkeeping: {}, data: 'minimal', type: 'Opaque' };
      },
      heldVersion: () => undefined,
    };
    const target = store.key('default', name);
    book.replace(RULE, [{ target, claim: { owner, mode: 'own', source: undefined, shape } }], []);
    const targets = targetsOf(book, async () => await Promise.resolve('keep'));
    requests.length = 0;
    await targets.reconcile(target, signal);
    return [book.on(target)[0]?.outcome.state, requests.splice(0)];
  }

  it('if a creation is refused because an object exists that no watch has brought, the object is read, and the target is decided again', async () => {
    await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'theirs', namespace: 'default' } });
    const [state, sent] = await reconcile('theirs');
    assert.deepEqual([state, sent.filter((method) => method === 'POST').length], ['conflict', 1]);
  });

  it('if another client wrote first and the watch is late, the object is read, and the write is repeated for the version in the response', async () => {
    await reconcile('behind');
    value = 'two';
    interruptions.set('PATCH', async () => {
      await plane.api.patch(path('behind'), { metadata: { annotations: { 'example.com/other': 'x' } } });
    });
    assert.deepEqual(await reconcile('behind'), ['synced', ['PATCH', 'GET', 'PATCH']]);
    const { metadata } = await plane.api.get(path('behind'));
    assert.equal(metadata.annotations['example.com/value'], 'two');
  });
});

it('each write of a target is reported, even if the outcome of its claim stays the same', async () => {
  const rule: RuleKey = asKey('rules:there');
  const book = new ClaimBook();
  const owner = { key: rule, title: rule, rank: '' };
  let value = '1';
  const desiredState = (): DesiredState => {
    const annotations = { [MARK]: rule, 'example.com/value': value };
    return { kind: 'be', labels: {}, annotations, bookkeeping: {}, data: 'keep', type: 'Opaque' };
  };
  const target = store.key('default', 'reported');
  const shape: Shape = { id: '', desiredState, heldVersion: () => undefined };
  book.replace(rule, [{ target, claim: { owner, mode: 'own', source: undefined, shape } }], []);
  const targets = targetsOf(book, async () => await Promise.resolve('keep'));
  const { signal } = new AbortController();
  wrote.length = 0;
  await targets.reconcile(target, signal);
  await targets.reconcile(target, signal);
  value = '2';
  await targets.reconcile(target, signal);
  assert.deepEqual(wrote, [true, true]);
});

describe('the replacement of an immutable copy', () => {
  const RULE: RuleKey = asKey('rules:there');
  const { signal } = new AbortController();

  /** Creates an immutable copy, and a claim for it with the desired state. */
  async function replacing(name: string, desired: () => DesiredState, mark = RULE) {
    const book = new ClaimBook();
    const owner = { key: RULE, title: RULE, rank: '' };
    const shape = { id: '', desiredState: desired, heldVersion: () => undefined };
    const target = store.key('default', name);
    const claim: Claim = { owner, mode: 'own', source: undefined, shape };
    book.replace(RULE, [{ target, claim }], []);
    const targets = targetsOf(book, async () => await Promise.resolve(mark === RULE ? 'keep' : 'delete'));
    const { metadata } = await plane.api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace: 'default', annotations: { [MARK]: mark } },
      data: { a: 'b2xk' },
      immutable: true,
    });
    await waitFor(() => store.index.get('default', name), { message: 'the copy to be known' });
    const run = async () => await targets.reconcile(target, signal);
    return { book, target, targets, claim, uid: metadata.uid, run };
  }
  const wished: DesiredState = {
    kind: 'be',
    labels: {},
    annotations: { [MARK]: RULE },
    bookkeeping: {},
    data: 'minimal',
    type: 'Opaque',
  };
  const waits: DesiredState = { kind: 'wait', for: 'source', ...userCause('NoSecret', 'its source is gone') };

  it('an immutable copy is not replaced if its rule drops the claim during the dry run', async () => {
    const { book, uid, run } = await replacing('left', () => wished);
    // The first POST is the dry run.
    interruptions.set('POST', async () => {
      await Promise.resolve();
      book.replace(RULE, [], []);
    });
    await run();
    assert.equal((await plane.api.find(path('left')))?.metadata.uid, uid);
  });

  it('if another claim wins during the dry run of a replacement, the replacement starts with another dry run', async () => {
    const { book, target, claim, run } = await replacing('changed', () => wished);
    interruptions.set('POST', async () => {
      await Promise.resolve();
      book.replace(RULE, [{ target, claim: { ...claim, shape: { ...claim.shape, id: 'other' } } }], []);
    });
    requests.length = 0;
    await run();
    const sent = ['PATCH', 'GET', 'POST', 'POST', 'DELETE', 'POST'];
    assert.deepEqual(requests.splice(0), sent);
  });

  it('while a finalizer holds the old copy, no creation is sent, in this run and in the next ones', async () => {
    const { uid, run } = await replacing('held', () => wished);
    const finalizers = (list: readonly string[] | null): Promise<unknown> =>
      plane.api.patch(path('held'), { metadata: { finalizers: list } });
    await finalizers(['example.com/holds']);
    const { metadata } = await plane.api.get(path('held'));
    await waitFor(() => store.index.get('default', 'held')?.resourceVersion === metadata.resourceVersion);
    requests.length = 0;
    await run();
    assert.deepEqual(requests.splice(0), ['PATCH', 'GET', 'POST', 'DELETE'], 'the POST is the dry run');
    await run();
    await waitFor(() => store.index.get('default', 'held')?.deleting === true, { message: 'the watch' });
    await run();
    assert.deepEqual(requests.splice(0), []);
    await finalizers(null);
    await waitFor(() => store.index.get('default', 'held') === undefined, { message: 'it to be gone' });
    await run();
    assert.deepEqual(requests.splice(0), ['POST']);
    assert.notEqual((await plane.api.get(path('held'))).metadata.uid, uid);
  });

  it('after a replacement, a new copy that leaves the watch is read, because Keyferry deleted only the old one', async (t) => {
    const { book, target, targets, claim, run } = await replacing('stripped', () => wished);
    changed = targets;
    t.after(() => (changed = undefined));
    await run();
    await plane.api.delete(path('stripped'));
    await waitFor(() => store.index.get('default', 'stripped') === undefined, { message: 'it to leave the watch' });
    book.replace(RULE, [{ target, claim: { ...claim, mode: 'release' } }], []);
    requests.length = 0;
    await run();
    assert.deepEqual(requests.splice(0), ['GET']);
  });

  it('if another client changes the copy before its deletion and the rule wants no replacement any more, the copy stays', async () => {
    let wanted = true;
    const { uid, run } = await replacing('edited', () => (wanted ? wished : waits));
    interruptions.set('DELETE', async () => {
      await plane.api.patch(path('edited'), { metadata: { annotations: { 'example.com/other': 'x' } } });
      wanted = false;
    });
    await run();
    assert.equal((await plane.api.find(path('edited')))?.metadata.uid, uid);
  });
});

describe('the source changes while its content is read for a write', () => {
  const ALLOWS = 'example.com/allows';
  const CREATED = ['GET', 'POST'];
  const { signal } = new AbortController();

  for (const [isImmutable, allows, sent] of [
    [false, 'no', ['GET']],
    [true, 'no', ['GET']],
    [false, 'yes', CREATED],
    [true, 'yes', ['GET', 'POST', 'DELETE', 'POST']],
  ] as const) {
    const [copy, then] = [isImmutable ? 'an immutable' : 'a missing', allows === 'yes' ? 'gets the new' : 'gets no'];
    it(`${copy} copy ${then} data if the source ${allows === 'yes' ? 'still allows' : 'no longer allows'} it`, async () => {
      const [name, source] = [`copy-${isImmutable}-${allows}`, `source-${isImmutable}-${allows}`];
      const rule: RuleKey = asKey('rules:there');
      const whole = new KubeStore({
        api: interrupted,
        kind: SECRET,
        onChange: () => undefined,
        onKnown: () => undefined,
      });
      const sink = whole.contentSink([{ isSource: () => false }]);
      const create = async (of: string, annotations: object, a: string, immutable = false): Promise<void> => {
        const metadata = { name: of, namespace: 'default', annotations };
        sink.upsert(
          await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: { a }, immutable }),
        );
      };
      await create(source, { [ALLOWS]: 'yes' }, 'one');
      if (isImmutable) await create(name, { [MARK]: rule }, 'old', true);
      const shape: Shape = {
        id: '',
        desiredState: (view) => {
          if (view.state !== 'present' || view.annotations[ALLOWS] !== 'yes')
            return { kind: 'fail', ...userCause('Denied', 'not allowed') };
          const annotations = { [MARK]: rule };
          return { kind: 'be', labels: {}, annotations, bookkeeping: {}, data: 'source', immutable: false };
        },
        heldVersion: () => undefined,
      };
      const [target, from] = [whole.key('default', name), whole.key('default', source)];
      const book = new ClaimBook();
      const claim: Claim = { owner: { key: rule, title: rule, rank: '' }, mode: 'own', source: from, shape };
      book.replace(rule, [{ target, claim }], [from]);
      const sources: TargetReconcilerOptions['sources'] = {
        view: (key) => (key === from ? whole.view(from) : { state: 'unknown' }),
        fingerprint: () => whole.fingerprint(from),
        load: async () => await whole.load(from, signal),
      };
      const targets = targetsOf(book, () => assert.fail('not asked'), undefined, whole, undefined, sources);
      // The plan knows the fingerprint of the content, but the content itself is not in the cache.
      interruptions.set('GET', async () => {
        await plane.api.patch(path(source), {
          metadata: { annotations: { [ALLOWS]: allows } },
          stringData: { a: 'two' },
        });
      });
      requests.length = 0;
      await targets.reconcile(target, signal);
      await whole.stop();
      assert.deepEqual(requests.splice(0), sent);
      const found = (await plane.api.find(path(name))) as { readonly data: { readonly a: string } } | undefined;
      const data = found && Buffer.from(found.data.a, 'base64').toString();
      assert.equal(data, allows === 'yes' ? 'two' : isImmutable ? 'old' : undefined);
      assert.equal(book.on(target)[0]?.outcome.state, allows === 'yes' ? 'synced' : 'error');
    });
  }
});

for (const [brought, isReported] of [
  ['the written content', false],
  ['another content', true],
] as const) {
  it(`a change of the status of a custom resource ${isReported ? 'reaches' : 'does not reach'} the engine if the watch brought ${brought}`, async () => {
    const rule: RuleKey = asKey('rules:there');
    const book = new ClaimBook();
    const events: string[] = [];
    // To the store this is a custom resource: its content belongs to a generation, and its status is not content.
    const custom = new KubeStore({
      api,
      kind: { ...SECRET, isCustom: true },
      onChange: (...change) => targets.objectChanged(...change),
      onKnown: () => undefined,
    });
    const targets = targetsOf(
      book,
      async () => await Promise.resolve('keep'),
      undefined,
      custom,
      (_key, before) => events.push(before === undefined ? 'created' : 'changed'),
    );
    const name = isReported ? 'altered' : 'unaltered';
    const target = custom.key('default', name);
    const desiredState = (): DesiredState => {
      return {
        kind: 'be',
        labels: {},
        annotations: { [MARK]: rule },
        bookkeeping: {},
        data: 'minimal',
        type: 'Opaque',
      };
    };
    const shape: Shape = { id: '', desiredState, heldVersion: () => undefined };
    const owner = { key: rule, title: rule, rank: '' };
    book.replace(rule, [{ target, claim: { owner, mode: 'own', source: undefined, shape } }], []);
    await targets.reconcile(target, new AbortController().signal);

    const written = await plane.api.get(path(name));
    const sink = custom.contentSink([{ isSource: () => false }]);
    const bring = (resourceVersion: string): unknown => {
      const metadata = { ...written.metadata, resourceVersion, namespace: 'default', name };
      return sink.upsert({ ...written, metadata, ...(isReported ? { data: { other: '' } } : {}) });
    };
    bring(written.metadata.resourceVersion);
    assert.deepEqual(events, ['created']);
    bring(String(Number(written.metadata.resourceVersion) + 1));
    await custom.stop();
    assert.deepEqual(events, isReported ? ['created', 'changed'] : ['created']);
  });
}
