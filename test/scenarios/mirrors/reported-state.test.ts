/** A mirror reports its real state in its condition, its columns, its events and the log. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Keyferry } from '../../support/keyferry.ts';
import type { Json } from '../../support/api.ts';
import { longIt } from '../../support/long.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';
import { HOME, mirrorPath, MirrorScene, secretPath } from './support.ts';

let scene: MirrorScene;
let operator: Keyferry;

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false });
  operator = await scene.operator();
});
after(() => scene.close());

const eventsOf = async (name: string, reason: string): Promise<number> =>
  (await scene.events(name)).filter((event) => event.reason === reason).length;

describe('a copy that does not match its mirror', () => {
  it('while a copy with an old type waits for a finalizer, the mirror is not ready; it is ready when that copy is made again', async () => {
    await scene.namespaces('typed-a', 'typed-b');
    await scene.secret(HOME, 'typed', { a: '1' });
    await scene.mirror('typed', ['typed-.']);
    await scene.ready('typed', 'Synced', /2 copies/);
    await scene.event('typed', 'Active');
    await scene.api.patch(secretPath('typed-b', 'typed'), { metadata: { finalizers: ['example.com/tenant'] } });
    await scene.api.delete(secretPath(HOME, 'typed'));
    await scene.ready('typed', 'NoSecret');
    await scene.secret(HOME, 'typed', { a: '2' }, { type: 'example.com/other' });
    const status = await scene.ready('typed', 'Terminating', /^waiting in namespace typed-b: /);
    assert.deepEqual([status.mirrorStatus, status.conditions[0].status], ['Active', 'False']);
    assert.equal((await scene.copied('typed-a', 'typed', { a: '2' })).type, 'example.com/other');
    assert.equal(await eventsOf('typed', 'Active'), 1, 'no event Active');
    await scene.api.patch(secretPath('typed-b', 'typed'), { metadata: { finalizers: null } });
    await scene.ready('typed', 'Synced', /2 copies/);
  });

  it('if two namespaces have no copy for different reasons, the mirror reports both reasons', async () => {
    await scene.namespaces('mixed-a', 'mixed-b', 'mixed-c');
    await scene.secret('mixed-a', 'mixed', { theirs: 'x' });
    await scene.secret('mixed-b', 'mixed', { theirs: 'x' }, { metadata: { finalizers: ['example.com/tenant'] } });
    await scene.api.delete(secretPath('mixed-b', 'mixed'));
    await scene.secret(HOME, 'mixed', { a: '1' });
    await scene.mirror('mixed', ['mixed-.']);
    const { conditions } = await scene.ready('mixed', 'Conflict', /skipped namespace .* waiting in /);
    assert.match(
      conditions[0].message,
      /namespace mixed-a: .*not managed by Keyferry; .*waiting in namespace mixed-b: .*deleted/,
    );
    assert.equal(await eventsOf('mixed', 'Active'), 0, 'no event Active');
    const levels = (): string[] =>
      operator
        .logs()
        .filter(({ msg }) => msg.includes('skipped namespace'))
        .map(({ level }) => level);
    await waitFor(() => levels().length > 0, { message: 'the verdict in the log' });
    assert.deepEqual(new Set(levels()), new Set(['warn']));
    await scene.api.patch(secretPath('mixed-b', 'mixed'), { metadata: { finalizers: null } });
    await scene.copied('mixed-b', 'mixed', { a: '1' });
  });
});

describe('a pattern that its author wrote as a glob or a list', () => {
  it('a mirror with such a pattern is not ready while it selects no namespace, and with such an exclusion it is not ready at all', async () => {
    await scene.namespaces('glob-a', 'glob-b');
    await scene.secret(HOME, 'glob', { a: '1' });
    const source = { name: 'glob' };
    await scene.mirror('globs', ['globs*', 'glob-a,glob-b'], { source });
    const { mirrorStatus, conditions } = await scene.ready('globs', 'MisreadPattern', /; 0 copies are up to date$/);
    assert.deepEqual([mirrorStatus, conditions[0].status], ['Active', 'False']);
    assert.match(conditions[0].message, /patterns are regular expressions of whole names.*for any text write \.\*;/);
    await scene.event('globs', 'MisreadPattern', /regular expressions of whole names/);
    await scene.namespaces('globs');
    await scene.ready('globs', 'Synced', /^1 copy is up to date$/);
    await scene.mirror('spared', ['glob-.'], {
      source,
      destination: { name: 'spared', excludedNamespaces: ['glob*'] },
    });
    await scene.ready('spared', 'MisreadPattern', /; 2 copies are up to date$/);
    await scene.event('spared', 'MisreadPattern');
  });
});

describe('the status of a mirror that another client writes', () => {
  const statusPath = `${mirrorPath('forged')}/status`;
  const version = async (): Promise<string> => (await scene.api.get(mirrorPath('forged'))).metadata.resourceVersion;

  before(async () => {
    await scene.namespaces('forged-a');
    await scene.secret(HOME, 'forged', { a: '1' });
    await scene.mirror('forged', ['forged-.']);
    await scene.ready('forged', 'Synced', /^1 copy/);
  });

  const lie = {
    type: 'Ready',
    status: 'False',
    reason: 'Broken',
    message: 'x',
    lastTransitionTime: '2026-01-01T00:00:00Z',
  };
  for (const [title, status] of [
    ['with another generation and state', { observedGeneration: 99, mirrorStatus: 'Pending' }],
    ['with another condition', { conditions: [lie] }],
    ['as null', null],
  ] as const) {
    it(`if another client writes a mirror's status ${title}, Keyferry corrects the status`, async () => {
      await scene.api.patch(statusPath, { status });
      await waitFor(async () => (await scene.ready('forged', 'Synced', /^1 copy/)).mirrorStatus === 'Active', {
        message: 'the state',
      });
    });
  }

  longIt("conditions of other types in a mirror's status are kept, and cause no write by Keyferry", async () => {
    const { conditions } = await scene.ready('forged', 'Synced');
    const other = { ...lie, type: 'example.com/Seen' };
    await scene.api.patch(statusPath, { status: { conditions: [...conditions, other] } });
    const written = await version();
    await staysTrue(async () => (await version()) === written, 3000, 'the mirror with a condition of another');
    await scene.api.patch(mirrorPath('forged'), { spec: { destination: { namespaces: ['forged-.', 'nobody'] } } });
    const after = await scene.ready('forged', 'Synced', /^1 copy/);
    assert.deepEqual(after.conditions.map(({ type }: Json) => type).toSorted(), ['Ready', 'example.com/Seen']);
  });
});
