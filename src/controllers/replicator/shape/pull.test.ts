/** What a target gets from its source; and messages must not show whether a source in another namespace exists. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { userCause } from '../../../copy/model/cause.ts';
import type { DesiredState, SourceView } from '../../../copy/model/claim.ts';
import { observe } from '../../../copy/model/observed.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { type Annotations, annotationNames } from '../rules/annotations.ts';
import { FilledShape } from './pull.ts';

const names = annotationNames('k8s-replicator');
const settings = {
  names,
  allowAll: false,
  ignoreUnknown: false,
  createWithLabels: {},
  patterns: new PatternCache('full'),
};
const MISSING: SourceView = {
  state: 'missing',
  ...userCause('NoSecret', 'secret victim/x not found, waiting to appear'),
};

function present(annotations: Annotations): SourceView {
  return { state: 'present', version: '7', labels: {}, annotations };
}

function desiredState(
  source: SourceView,
  from: string,
  filled: boolean,
  namespace = 'me',
  more: Annotations = {},
): DesiredState {
  const [home = '', name = ''] = from.split('/');
  const target = observe({
    name: 'x',
    namespace,
    uid: 'u',
    resourceVersion: '1',
    creationTimestamp: '',
    annotations: { [names.from]: from, ...(filled ? { [names.version]: '1' } : {}), ...more },
  });
  return new FilledShape(settings, { kind: 'Secret', namespace, name: 'x' }, { namespace: home, name }).desiredState(
    source,
    target,
    0,
  );
}

describe('a source in another namespace', () => {
  const closed: readonly [string, Annotations][] = [
    ['has no permission', {}],
    ['forbids replication', { [names.allowed]: 'false' }],
    ['names other namespaces', { [names.allowedNamespaces]: 'other,them-.*' }],
    ['is a copy without permission to pass it on', { [names.allowed]: 'true', [names.from]: 'a/b' }],
  ];
  for (const [title, annotations] of closed) {
    it(`if a source in another namespace ${title}, the message is the same as for a source that does not exist`, () => {
      for (const filled of [false, true]) {
        const existing = desiredState(present(annotations), 'victim/x', filled);
        // Only the time of the write depends on this (`lackOf`), and users read nothing of it.
        const told = (state: DesiredState): object => ({ ...state, isSourceEmpty: undefined });
        assert.deepEqual(told(existing), told(desiredState(MISSING, 'victim/x', filled)));
        assert.equal(existing.kind, filled ? 'be' : 'fail');
        assert.doesNotMatch(JSON.stringify(existing), /not found|other|them-/u);
        assert.match(JSON.stringify(existing), /Denied.*does not exist or does not allow namespace me/u);
      }
    });
  }

  const odd: readonly [string, Annotations][] = [
    ['an ill-formed permission', { [names.allowed]: 'perhaps' }],
    ['a bad pattern', { [names.allowedNamespaces]: '(((' }],
    ['an unknown annotation', { 'k8s-replicator/replicate-too': 'x' }],
    ['a list that is too long', { [names.allowedNamespaces]: 'a,'.repeat(20_000) }],
  ];
  for (const [title, annotations] of odd) {
    it(`if a source has ${title}, the message in another namespace is that of a missing source; in its own namespace it names the problem`, () => {
      const source = present(
        observe({ name: 'x', uid: 'u', resourceVersion: '1', creationTimestamp: '', annotations }).annotations,
      );
      assert.deepEqual(desiredState(source, 'victim/x', false), desiredState(MISSING, 'victim/x', false));
      const own = desiredState(source, 'me/y', false);
      assert.ok(own.kind === 'fail' && own.reason !== 'Denied');
    });
  }

  it('if a source allows another namespace, the message there names the problem of the source', () => {
    const allowed = { [names.allowed]: 'true' };
    assert.match(
      JSON.stringify(desiredState(present({ ...allowed, 'k8s-replicator/x': '' }), 'victim/x', false)),
      /UnknownAnnotation/u,
    );
    assert.match(
      JSON.stringify(desiredState(present({ ...allowed, [names.once]: 'x' }), 'victim/x', false)),
      /IllFormed/u,
    );
    const loop = {
      ...allowed,
      [names.from]: 'me/x',
      [names.inherited]: '.*',
      [names.origin]: 'me/x',
      [names.version]: '1',
    };
    assert.match(JSON.stringify(desiredState(present(loop), 'victim/x', false)), /Loop/u);
  });

  it('in the namespace of the source, the message says whether the source is missing or denies permission', () => {
    assert.match(JSON.stringify(desiredState(MISSING, 'me/y', false)), /NoSecret/u);
    assert.match(JSON.stringify(desiredState(present({}), 'me/y', false)), /Denied.*has neither annotation/u);
  });
});

test('replicate-from fills a clone of a copy of a SecretMirror, but not the copy itself', () => {
  const allowed = present({ [names.allowed]: 'true' });
  const mirrored = (target: string): DesiredState => {
    const marks = { 'mirrors.kts.studio/owned-by': 'home/mirror', 'keyferry.dev/target': target };
    return desiredState(allowed, 'victim/x', false, 'me', marks);
  };
  const clone = mirrored('team/x');
  assert.ok(clone.kind === 'be' && clone.data === 'source');
  const copy = mirrored('me/x');
  assert.ok(copy.kind === 'fail' && copy.reason === 'Conflict');
});
