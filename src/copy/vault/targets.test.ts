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
import type { JsonObject } from '../../vault/json.ts';
import { type KvEntry, MISSING } from '../../vault/kv/answers.ts';
import { VaultValues } from '../../vault/kv/values.ts';
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
const PRESENT = { state: 'present', version: '1', labels: {}, annotations: {} } as const;
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
  /** How many times the content of a source was loaded. */
  loads = 0;
  /** The version of all sources. */
  version = '1';
  /** Called before the content of a source is read. */
  onLoad: () => unknown = () => undefined;
  readonly targets: VaultTargets;

  constructor(entries: object) {
    fixRandom(0);
    const connection = { session: { addr: 'http://v' }, entries } as unknown as VaultConnection;
    const content = Content.ofObject(SECRET, { data: { k: 'NDI=' } }, this.version);
    this.targets = new VaultTargets({
      claims: { book: this.book, ownersOf: () => [], graceLeft: () => undefined, wanted: () => undefined },
      cycles: NO_CYCLES,
      sources: {
        view: (source) => (this.sourceless.has(source ?? '') ? ABSENT : { ...PRESENT, version: this.version }),
        fingerprint: () => content.fingerprint,
        load: async () => {
          this.loads += 1;
          this.onLoad();
          return await Promise.resolve(content.withVersion(this.version));
        },
      },
      locations: this.locations,
      access: {
        open: async () => await Promise.resolve(connection),
        follow: () => undefined,
        close: () => undefined,
      } as unknown as VaultAccess,
      now: () => Date.UTC(2026, 0, 1),
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

test('an entry in Vault is written again only if its values are not those of the last write', async () => {
  let entry: KvEntry = MISSING;
  let isDown = false;
  let updates = 0;
  const has = (values: JsonObject, version: number | undefined): void => {
    const kv2 = version === undefined ? {} : { version, createdTime: '2026-01-01T00:00:00Z' };
    entry = { state: 'found', values: VaultValues.fromJson(values), ...kv2 };
  };
  const scene = new Scene({
    readKv: async () => {
      if (isDown) throw new VaultError('no answer', { kind: 'unavailable', addr: 'http://v' });
      return await Promise.resolve(entry);
    },
    update: async (_path: string, decide: () => VaultValues) => {
      updates += 1;
      const version = entry.version === undefined ? {} : { version: entry.version + 1, createdTime: 'now' };
      entry = { state: 'found', values: decide(), ...version };
      return await Promise.resolve({ written: true, ...version });
    },
  });
  /** Runs the target. @returns whether the entry was written, and the version of the entry that is known */
  const run = async (): Promise<unknown> => {
    const before = updates;
    await scene.run();
    return [updates > before, scene.targets.written(TARGET)?.entryVersion];
  };
  scene.claimed('mirror', '');
  assert.deepEqual(await run(), [true, '1 now']);
  assert.deepEqual(await run(), [false, '1 now']);
  const { loads } = scene;
  // Another client has written the same values.
  has({ k: '42' }, 7);
  assert.deepEqual([await run(), scene.loads], [[false, '7 2026-01-01T00:00:00Z'], loads]);
  for (const values of [{}, { k: '43' }, { k: '42', more: '' }, { k: 42 }, { other: '42' }]) {
    has(values, 7);
    assert.deepEqual(
      [await run(), await run()],
      [
        [true, '8 now'],
        [false, '8 now'],
      ],
      JSON.stringify(values),
    );
  }
  for (const state of ['missing', 'deleted', 'destroyed'] as const) {
    entry = { state, version: 8 };
    assert.deepEqual(
      [await run(), await run()],
      [
        [true, '9 now'],
        [false, '9 now'],
      ],
      state,
    );
  }
  isDown = true;
  await assert.rejects(scene.run(), VaultError);
  isDown = false;
  assert.equal(scene.targets.written(TARGET), undefined, 'nothing is known of an entry after a failure');
  await run();
  scene.claimed('mirror', '', { ...LOCATION, encoding: 'base64' });
  assert.deepEqual(
    [await run(), await run()],
    [
      [true, '11 now'],
      [false, '11 now'],
    ],
    'in another encoding',
  );
  has({ k: '42' }, 11);
  assert.deepEqual(await run(), [true, '12 now'], 'it is not base64 any more');
  // As ktsstudio/mirrors writes KV 1.
  has({ data: { k: 'NDI=' } }, undefined);
  assert.deepEqual(await run(), [false, undefined]);
});

test('if a Vault entry has the content of a rule, this rule keeps the entry; otherwise the oldest rule whose source exists gets it', async () => {
  const scene = new Scene({
    readKv: async () => await Promise.resolve(MISSING),
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

test('content that is newer than the plan is not written: the next run decides about it', async () => {
  const scene = new Scene({
    update: async () => await Promise.resolve({ written: true, version: 1, createdTime: '' }),
  });
  scene.claimed('mirror', '');
  scene.onLoad = () => (scene.version = '2');
  assert.deepEqual(await scene.run(), []);
  assert.deepEqual(await scene.run(), ['mirror']);
  assert.equal(scene.targets.written(TARGET)?.sourceVersion, '2');
});
