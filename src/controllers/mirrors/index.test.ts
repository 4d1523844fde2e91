/**
 * What the controller of mirrors asks for and tells: which entries of Vault a mirror uses, and that a mirror that is gone
 * without its finalizer is kept until its copies and leases are dealt with.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asKey } from '../../../test/support/keys.ts';
import { nullLog } from '../../../test/support/null-log.ts';
import { ruleLife } from '../../../test/support/rule-life.ts';
import { ruleScope } from '../../../test/support/rule-scope.ts';
import type { Entry } from '../../copy/book/claim-book.ts';
import type { RuleLife } from '../../copy/engine/life/rule-life.ts';
import { type Outcome, PENDING, SYNCED } from '../../copy/model/claim.ts';
import type { RuleKey } from '../../copy/model/keys.ts';
import { MetricRegistry } from '../../observe/metrics/metric-registry.ts';
import type { ControllerContext } from '../common/context.ts';
import { SECRET_MIRROR_FINALIZER, type SecretMirror, type SecretMirrorSpec } from './api.ts';
import { Mirrors } from './index.ts';
import type { StoredMirror } from './rules/mirror-store.ts';
import { MirrorShape, RetainShape } from './shape.ts';

const unused = (): never => assert.fail('not used');
const { signal } = new AbortController();
const RULE: RuleKey = asKey('mirrors:default/db');
const END = '2026-01-01T00:00:00Z';
const META = { name: 'db', namespace: 'default', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
const LIMIT_MS = 60_000;

/** The controller without servers. @param revoked settles the revocation of a lease */
class Scene {
  now = 7;
  readonly enqueued: string[] = [];
  readonly used: string[] = [];
  readonly mirrors: Mirrors;
  readonly life: RuleLife<StoredMirror, object>;

  constructor(revoked = Promise.resolve()) {
    const clock = { now: () => Date.parse(END) + this.now, monotonic: () => this.now, setTimeout: unused };
    const context = {
      engine: {
        enqueueRule: (rule: RuleKey) => this.enqueued.push(`rule ${rule}`),
        enqueueStatus: (rule: RuleKey) => this.enqueued.push(`status ${rule}`),
        backends: { view: () => ({ state: 'unknown' }) },
        claims: { ownedBy: () => [] },
        book: { of: () => [] },
      },
      cluster: {
        store: () => ({ index: { get: () => undefined } }),
      },
      config: { mirrors: { allowCrossNamespaceAuth: false }, vault: { environment: {} } },
      vault: {
        setLeaseObserver: () => undefined,
        leases: { of: () => [], release: () => this.used.push('leases forgotten') },
        locations: {
          set: (_rule: RuleKey, uses: readonly unknown[]) => this.used.push(`${uses.length} uses`),
        },
        revokeLease: async () => await revoked,
        addresses: undefined,
      },
      metrics: { registry: new MetricRegistry() },
      clock,
      log: nullLog,
      scope: ruleScope(),
    };
    this.mirrors = new Mirrors(context as unknown as ControllerContext);
    this.life = ruleLife(this.mirrors, {
      api: { cluster: 'c', request: unused, stream: unused },
      clock,
      deletionTimeoutMs: LIMIT_MS,
    });
  }

  async report(retain: boolean, ...outcomes: readonly Outcome[]): Promise<unknown> {
    const owner = { key: RULE, title: '', rank: '' };
    const shape = retain ? new RetainShape('default/db') : new MirrorShape({ owner: 'default/db', retain: false });
    const claim = { owner, mode: retain ? 'own' : 'release', source: undefined, shape } as const;
    const entries = outcomes.map((outcome): Entry => ({ target: asKey('c:Secret/team/db'), claim, outcome }));
    const progress = { writes: 0, undeleted: [], evaluated: this.mirrors.store.version(RULE) };
    return await this.life.report(RULE, entries, progress, signal);
  }
}

test('an evaluation tells the Vault backend which entries a mirror uses; if the mirror is deleted or gone, it uses none', async () => {
  const { mirrors, used } = new Scene();
  const evaluate = async (): Promise<string[]> => {
    await mirrors.rules.evaluate(RULE, { ownedBy: () => [] });
    return used.splice(0);
  };
  const vault = { addr: 'https://v', path: 'secret/data/x', auth: { token: { secretRef: { name: 't' } } } };
  const spec = { source: { type: 'vault', vault } } as SecretMirrorSpec;
  mirrors.store.put({ metadata: META, spec } as SecretMirror);
  assert.deepEqual(await evaluate(), ['1 uses']);
  mirrors.store.put({ metadata: { ...META, resourceVersion: '2', deletionTimestamp: END }, spec } as SecretMirror);
  assert.deepEqual(await evaluate(), ['0 uses']);
  mirrors.store.end(RULE, mirrors.store.get(RULE)!, true);
  assert.deepEqual(await evaluate(), ['0 uses', 'leases forgotten']);
});

test('a mirror that is gone without its finalizer is kept until its copies are retained and its leases revoked; the others are forgotten at once', async () => {
  const cases: readonly (readonly [string, SecretMirrorSpec, readonly string[], boolean])[] = [
    ['retains its copies', { deletePolicy: 'retain' }, [], true],
    ['has a source in Vault', { source: { type: 'vault' } }, [], true],
    ['deletes its copies', { deletePolicy: 'delete' }, [], false],
    ['had another finalizer', { deletePolicy: 'retain' }, ['example.com/other'], true],
    ['lost its finalizer while it was being deleted', { deletePolicy: 'retain' }, [SECRET_MIRROR_FINALIZER], true],
  ];
  for (const [[what, spec, finalizers, isKept], shownBy] of cases.flatMap((one) => [
    [one, 'an event'] as const,
    [one, 'a list'] as const,
  ])) {
    const { promise: revoked, resolve } = Promise.withResolvers<void>();
    const scene = new Scene(revoked);
    const { store } = scene.mirrors;
    const isVault = spec.source?.type === 'vault';
    const status = isVault ? { vaultSource: { leaseID: 'lease' } } : {};
    const metadata = { ...META, finalizers, ...(finalizers.length > 0 ? { deletionTimestamp: END } : {}) };
    const mirror = { metadata, spec, status };
    store.put(mirror);
    scene.enqueued.splice(0);
    if (shownBy === 'a list') store.sink.prune(new Set(), '9');
    else store.sink.remove({ ...mirror, metadata: { ...metadata, resourceVersion: '9' } });
    const kept = store.get(RULE);
    assert.equal(kept !== undefined, isKept, what);
    assert.deepEqual(scene.enqueued, [`rule ${RULE}`], `${what}: nothing else may bring a run`);
    if (kept === undefined) continue;
    store.storeResponse({ ...mirror, metadata: { ...metadata, resourceVersion: '8' } });
    assert.equal(store.get(RULE), kept, `${what}: the late response to a write does not bring it back`);
    assert.equal(scene.life.isDue(RULE), false);
    store.sink.prune(new Set(), '10');
    assert.equal(store.get(RULE), kept, `${what}: it stays after a list, which lacks it`);
    assert.deepEqual(
      await scene.report(true, PENDING),
      { requeueAfterMs: LIMIT_MS },
      'it runs again at the time limit',
    );
    await scene.report(true, SYNCED);
    assert.equal(store.get(RULE) !== undefined, isVault, `${what}: the lease is being revoked`);
    resolve();
    await new Promise((later) => setImmediate(later));
    if (isVault) await scene.report(true, SYNCED);
    assert.equal(store.get(RULE), undefined, what);
  }
});
