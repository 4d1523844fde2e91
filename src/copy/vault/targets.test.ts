/** Checks when an entry in Vault is read and written. The responses are made up; scenario tests use a real Vault. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { userCause } from '../model/cause.ts';
import type { Claim, Shape, SourceView } from '../model/claim.ts';
import { ClaimBook } from '../book/claim-book.ts';
import { Content } from '../model/content.ts';
import { SECRET } from '../model/kind.ts';
import type { VaultAccess, VaultConnection } from './access/access.ts';
import { VaultError } from '../../vault/errors.ts';
import { VaultLocations, type VaultLocation, vaultTargetKey } from './locations.ts';
import { VaultTargets } from './targets.ts';
import { fixRandom } from '../../../test/support/fixed-random.ts';
import { asKey } from '../../../test/support/keys.ts';
import type { RuleKey, ResourceKey } from '../model/keys.ts';
import { parseServer } from '../../vault/client/server.ts';
import { NO_CYCLES } from '../../../test/support/no-cycles.ts';

const RULE: RuleKey = asKey('mirrors:default/mirror');
const SOURCE: ResourceKey = asKey('c:Secret/default/db');
const LOCATION: VaultLocation = {
  server: parseServer({ addr: 'http://v' }),
  auth: { method: 'token', token: { namespace: 'default', name: 'token', key: 'token' } },
  path: 'secret/data/app',
  encoding: 'plain',
  secretType: undefined,
};
const TARGET = vaultTargetKey(LOCATION);

test('if another client has recreated an entry in Vault, it is written again, even if its version number is the same', async () => {
  fixRandom(0);
  const entry = { version: 0, createdTime: '' };
  let looks = 0;
  let isDown = false;
  let updates = 0;
  let now = Date.UTC(2026, 0, 1);
  /** The fraction of a second in the creation time of an entry. OpenBao's times have none. */
  let fraction = '.5';
  const entries = {
    resolve: async () =>
      await Promise.resolve({ mount: { path: 'secret/', kind: 'kv2' }, known: true, dataPath: LOCATION.path }),
    readVersion: async () => {
      looks += 1;
      if (isDown) throw new VaultError('no answer', { kind: 'unavailable', addr: 'http://v' });
      return await Promise.resolve({ state: 'found', ...entry });
    },
    update: async () => {
      updates += 1;
      entry.version += 1;
      entry.createdTime = `2026-01-01T00:00:0${updates}${fraction}Z`;
      return await Promise.resolve({ written: true, ...entry });
    },
  };
  const connection = { session: { addr: 'http://v' }, entries } as unknown as VaultConnection;
  const content = Content.ofObject(SECRET, { data: { k: 'dg==' } }, '1');
  const view: SourceView = { state: 'present', version: '1', labels: {}, annotations: {} };
  const owner = { key: RULE, title: 'SecretMirror default/mirror', rank: '' };
  const desired = { kind: 'be', labels: {}, annotations: {}, bookkeeping: {}, data: 'source' } as const;
  const shape = { id: '', desiredState: () => desired, heldVersion: () => undefined };
  const claim: Claim = { owner, mode: 'own', source: SOURCE, shape };
  const book = new ClaimBook();
  book.replace(RULE, [{ target: TARGET, claim }], [SOURCE]);
  const locations = new VaultLocations(() => undefined);
  locations.set(RULE, [{ key: TARGET, location: LOCATION, pollSeconds: 1 }]);
  const targets = new VaultTargets({
    claims: {
      book,
      ownersOf: () => [],
      graceLeft: () => undefined,
      wanted: () => undefined,
    },
    cycles: NO_CYCLES,
    sources: {
      view: () => view,
      fingerprint: () => content.fingerprint,
      load: async () => await Promise.resolve(content),
    },
    locations,
    access: {
      open: async () => await Promise.resolve(connection),
      follow: () => undefined,
      close: () => undefined,
    } as unknown as VaultAccess,
    now: () => now,
    onOutcome: () => undefined,
    onWrite: () => undefined,
  });
  const { signal } = new AbortController();
  const run = async (): Promise<void> => void (await targets.reconcile(TARGET, signal));
  await run();
  assert.deepEqual([updates, targets.written(TARGET)?.entryVersion], [1, '1 2026-01-01T00:00:01.5Z']);
  await run();
  assert.deepEqual([updates, looks], [1, 1], 'its metadata show that it is unchanged');
  // Another client deletes the entry with all its versions, and creates it again with the same version number.
  entry.createdTime = 'theirs';
  await run();
  assert.equal(updates, 2);
  entry.version += 1;
  await run();
  assert.equal(updates, 3);
  await run();
  assert.equal(updates, 3);
  // Times are now whole seconds. So in the second of the write another client can create an entry with the same version
  // and time.
  fraction = '';
  entry.createdTime = 'theirs';
  await run();
  await run();
  assert.equal(updates, 5);
  now += 20_000;
  const before = looks;
  await run();
  await run();
  assert.deepEqual([updates, looks], [6, before + 1]);
  isDown = true;
  await assert.rejects(run(), VaultError);
  isDown = false;
  assert.equal(targets.written(TARGET), undefined, 'nothing is known of an entry after a failure');
  await run();
  assert.equal(updates, 7);
  await run();
  assert.equal(updates, 7, 'it is unchanged');
  locations.set(RULE, [{ key: TARGET, location: { ...LOCATION, encoding: 'base64' }, pollSeconds: 1 }]);
  await run();
  assert.equal(updates, 8, 'the entry has the values in another encoding');
});

test('if a Vault entry has the content of a rule, this rule keeps the entry; otherwise the oldest rule whose source exists gets it', async () => {
  fixRandom(0);
  const written: string[] = [];
  const entries = {
    resolve: async () =>
      await Promise.resolve({ mount: { path: 'secret/', kind: 'kv2' }, known: true, dataPath: LOCATION.path }),
    readVersion: async () => await Promise.resolve({ state: 'missing' }),
    update: async () => await Promise.resolve({ written: true, version: 1, createdTime: '' }),
  };
  const connection = { session: { addr: 'http://v' }, entries } as unknown as VaultConnection;
  const content = Content.ofObject(SECRET, { data: { k: 'dg==' } }, '1');
  const present: SourceView = { state: 'present', version: '1', labels: {}, annotations: {} };
  const absent: SourceView = { state: 'missing', ...userCause('NoSecret', 'not found') };
  const sourceless = new Set<string>();
  const shape: Shape = {
    id: '',
    desiredState: (view) =>
      view.state === 'present'
        ? { kind: 'be', labels: {}, annotations: {}, bookkeeping: {}, data: 'source' }
        : { kind: 'wait', for: 'source', ...userCause('NoSecret', 'not found') },
    heldVersion: () => undefined,
  };
  const book = new ClaimBook();
  const locations = new VaultLocations(() => undefined);
  const claimed = (name: string, rank: string): void => {
    const rule: RuleKey = asKey(`mirrors:default/${name}`);
    const source: ResourceKey = asKey(`c:Secret/default/${name}`);
    const owner = { key: rule, title: name, rank };
    book.replace(rule, [{ target: TARGET, claim: { owner, mode: 'own', source, shape } }], [source]);
    locations.set(rule, [{ key: TARGET, location: LOCATION, pollSeconds: 1 }]);
  };
  const gone = (name: string): void => {
    book.replace(asKey(`mirrors:default/${name}`), [], []);
    locations.set(asKey(`mirrors:default/${name}`), []);
  };
  const targets = new VaultTargets({
    claims: {
      book,
      ownersOf: () => [],
      graceLeft: () => undefined,
      wanted: () => undefined,
    },
    cycles: NO_CYCLES,
    sources: {
      view: (source) => (sourceless.has(source ?? '') ? absent : present),
      fingerprint: () => content.fingerprint,
      load: async () => await Promise.resolve(content),
    },
    locations,
    access: {
      open: async () => await Promise.resolve(connection),
      follow: () => undefined,
      close: () => undefined,
    } as unknown as VaultAccess,
    now: () => 0,
    onOutcome: () => undefined,
    onWrite: (_target, _addr, { claim }) => written.push(claim.owner.title),
  });
  const { signal } = new AbortController();
  const run = async (): Promise<readonly string[]> => {
    await targets.reconcile(TARGET, signal);
    return written.splice(0);
  };
  const outcomes = (): readonly string[] =>
    book.on(TARGET).map(({ claim, outcome }) => `${claim.owner.title} ${outcome.state}`);
  claimed('young', '2');
  assert.deepEqual(await run(), ['young']);
  claimed('old', '1');
  assert.deepEqual(await run(), ['young'], 'an older rule does not take it');
  assert.deepEqual(outcomes().toSorted(), ['old conflict', 'young synced']);
  gone('young');
  assert.deepEqual(await run(), ['old']);
  gone('old');
  await run();
  sourceless.add('c:Secret/default/old');
  claimed('old', '1');
  claimed('young', '2');
  assert.deepEqual(await run(), ['young'], 'the older rule has no source');
  gone('young');
  gone('old');
  await run();
  sourceless.add('c:Secret/default/young');
  claimed('young', '2');
  assert.deepEqual(await run(), [], 'it waits for its source, and holds nothing');
  sourceless.clear();
  claimed('old', '1');
  assert.deepEqual(await run(), ['old']);
});
