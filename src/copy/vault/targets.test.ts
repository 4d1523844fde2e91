/** Checks when an entry in Vault is read and written. The responses are made up; scenario tests use a real Vault. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { userCause } from '../model/cause.ts';
import type { Shape, SourceView } from '../model/claim.ts';
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

const LOCATION: VaultLocation = {
  server: parseServer({ addr: 'http://v' }),
  auth: { method: 'token', token: { namespace: 'default', name: 'token', key: 'token' } },
  path: 'secret/data/app',
  encoding: 'plain',
  secretType: undefined,
};
const TARGET = vaultTargetKey(LOCATION);

const { signal } = new AbortController();
const DESIRED = { kind: 'be', labels: {}, annotations: {}, bookkeeping: {}, data: 'source' } as const;
const PRESENT: SourceView = { state: 'present', version: '1', labels: {}, annotations: {} };
const ABSENT: SourceView = { state: 'missing', ...userCause('NoSecret', 'not found') };
const SHAPE: Shape = {
  id: '',
  desiredState: ({ state }) =>
    state === 'present' ? DESIRED : { kind: 'wait', for: 'source', ...userCause('NoSecret', 'not found') },
  heldVersion: () => undefined,
};

/** The targets, with entries of Vault as given. */
class Scene {
  readonly book = new ClaimBook();
  readonly locations = new VaultLocations(() => undefined);
  /** The sources that do not exist. */
  readonly sourceless = new Set<string>();
  /** The titles of the rules for which the entry was written. */
  readonly written: string[] = [];
  now = Date.UTC(2026, 0, 1);
  readonly targets: VaultTargets;

  constructor(entries: object) {
    fixRandom(0);
    const connection = { session: { addr: 'http://v' }, entries } as unknown as VaultConnection;
    const content = Content.ofObject(SECRET, { data: { k: 'dg==' } }, '1');
    this.targets = new VaultTargets({
      claims: { book: this.book, ownersOf: () => [], graceLeft: () => undefined, wanted: () => undefined },
      cycles: NO_CYCLES,
      sources: {
        view: (source) => (this.sourceless.has(source ?? '') ? ABSENT : PRESENT),
        fingerprint: () => content.fingerprint,
        load: async () => await Promise.resolve(content),
      },
      locations: this.locations,
      access: {
        open: async () => await Promise.resolve(connection),
        follow: () => undefined,
        close: () => undefined,
      } as unknown as VaultAccess,
      now: () => this.now,
      onOutcome: () => undefined,
      onWrite: (_target, _addr, { claim }) => this.written.push(claim.owner.title),
    });
  }

  claimed(name: string, rank: string, location = LOCATION): void {
    const rule: RuleKey = asKey(`mirrors:default/${name}`);
    const source: ResourceKey = asKey(`c:Secret/default/${name}`);
    const owner = { key: rule, title: name, rank };
    this.book.replace(rule, [{ target: TARGET, claim: { owner, mode: 'own', source, shape: SHAPE } }], [source]);
    this.locations.set(rule, [{ key: TARGET, location, pollSeconds: 1 }]);
  }

  gone(name: string): void {
    this.book.replace(asKey(`mirrors:default/${name}`), [], []);
    this.locations.set(asKey(`mirrors:default/${name}`), []);
  }

  /** Runs the target. @returns the rules for which it was written */
  async run(): Promise<readonly string[]> {
    await this.targets.reconcile(TARGET, signal);
    return this.written.splice(0);
  }
}

test('if another client has recreated an entry in Vault, it is written again, even if its version number is the same', async () => {
  const entry = { version: 0, createdTime: '' };
  let looks = 0;
  let isDown = false;
  let updates = 0;
  /** The fraction of a second in the creation time of an entry. OpenBao's times have none. */
  let fraction = '.5';
  const scene = new Scene({
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
  });
  scene.claimed('mirror', '');
  await scene.run();
  assert.deepEqual([updates, scene.targets.written(TARGET)?.entryVersion], [1, '1 2026-01-01T00:00:01.5Z']);
  await scene.run();
  assert.deepEqual([updates, looks], [1, 1], 'its metadata show that it is unchanged');
  // Another client deletes the entry with all its versions, and creates it again with the same version number.
  entry.createdTime = 'theirs';
  await scene.run();
  assert.equal(updates, 2);
  entry.version += 1;
  await scene.run();
  assert.equal(updates, 3);
  await scene.run();
  assert.equal(updates, 3);
  // Times are now whole seconds. So in the second of the write another client can create an entry with the same version
  // and time.
  fraction = '';
  entry.createdTime = 'theirs';
  await scene.run();
  await scene.run();
  assert.equal(updates, 5);
  scene.now += 20_000;
  const before = looks;
  await scene.run();
  await scene.run();
  assert.deepEqual([updates, looks], [6, before + 1]);
  isDown = true;
  await assert.rejects(scene.run(), VaultError);
  isDown = false;
  assert.equal(scene.targets.written(TARGET), undefined, 'nothing is known of an entry after a failure');
  await scene.run();
  assert.equal(updates, 7);
  await scene.run();
  assert.equal(updates, 7, 'it is unchanged');
  scene.claimed('mirror', '', { ...LOCATION, encoding: 'base64' });
  await scene.run();
  assert.equal(updates, 8, 'the entry has the values in another encoding');
});

test('if a Vault entry has the content of a rule, this rule keeps the entry; otherwise the oldest rule whose source exists gets it', async () => {
  const scene = new Scene({
    readVersion: async () => await Promise.resolve({ state: 'missing' }),
    update: async () => await Promise.resolve({ written: true, version: 1, createdTime: '' }),
  });
  const outcomes = (): readonly string[] =>
    scene.book.on(TARGET).map(({ claim, outcome }) => `${claim.owner.title} ${outcome.state}`);
  scene.claimed('young', '2');
  assert.deepEqual(await scene.run(), ['young']);
  scene.claimed('old', '1');
  assert.deepEqual(await scene.run(), ['young'], 'an older rule does not take it');
  assert.deepEqual(outcomes().toSorted(), ['old conflict', 'young synced']);
  scene.gone('young');
  assert.deepEqual(await scene.run(), ['old']);
  scene.gone('old');
  await scene.run();
  scene.sourceless.add('c:Secret/default/old');
  scene.claimed('old', '1');
  scene.claimed('young', '2');
  assert.deepEqual(await scene.run(), ['young'], 'the older rule has no source');
  scene.gone('young');
  scene.gone('old');
  await scene.run();
  scene.sourceless.add('c:Secret/default/young');
  scene.claimed('young', '2');
  assert.deepEqual(await scene.run(), [], 'it waits for its source, and holds nothing');
  scene.sourceless.clear();
  scene.claimed('old', '1');
  assert.deepEqual(await scene.run(), ['old']);
});
