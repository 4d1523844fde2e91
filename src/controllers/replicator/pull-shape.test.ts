/** What an author of `replicate-from` is told of a source in another namespace: nothing that its own words do not say, unless it is allowed. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { DesiredState, SourceView } from '../../copy/model/claim.ts';
import { observe } from '../../copy/model/observed.ts';
import { PatternCache } from '../common/namespace-patterns.ts';
import { type Annotations, annotationNames } from './annotations.ts';
import { PullShape } from './pull-shape.ts';

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
  reason: 'NoSecret',
  message: 'secret victim/x not found, waiting to appear',
};

function present(annotations: Annotations): SourceView {
  return { state: 'present', version: '7', labels: {}, annotations };
}

function ask(source: SourceView, from: string, filled: boolean, namespace = 'me'): DesiredState {
  const [home = '', name = ''] = from.split('/');
  const target = observe({
    name: 'x',
    namespace,
    uid: 'u',
    resourceVersion: '1',
    creationTimestamp: '',
    annotations: { [names.from]: from, ...(filled ? { [names.version]: '1' } : {}) },
  });
  return new PullShape(settings, { kind: 'Secret', namespace, name: 'x' }, { namespace: home, name }).desiredState(
    source,
    target,
    0,
  );
}

describe('a source in another namespace', () => {
  const closed: readonly [string, Annotations][] = [
    ['has no permission', {}],
    ['says no', { [names.allowed]: 'false' }],
    ['names other namespaces', { [names.allowedNamespaces]: 'other,them-.*' }],
    ['is a copy that may not be handed on', { [names.allowed]: 'true', [names.from]: 'a/b' }],
  ];
  for (const [title, annotations] of closed) {
    it(`gives the same answer where it ${title} as where it is not there`, () => {
      for (const filled of [false, true]) {
        const there = ask(present(annotations), 'victim/x', filled);
        assert.deepEqual(there, ask(MISSING, 'victim/x', filled));
        assert.equal(there.kind, filled ? 'be' : 'fail');
        assert.doesNotMatch(JSON.stringify(there), /not found|other|them-/u);
        assert.match(JSON.stringify(there), /Denied.*does not exist or does not allow namespace me/u);
      }
    });
  }

  const odd: readonly [string, Annotations][] = [
    ['a permission that is ill-formed', { [names.allowed]: 'perhaps' }],
    ['a bad pattern', { [names.allowedNamespaces]: '(((' }],
    ['an annotation that nobody knows', { 'k8s-replicator/replicate-too': 'x' }],
    ['a list that is too long', { [names.allowedNamespaces]: 'a,'.repeat(20_000) }],
  ];
  for (const [title, annotations] of odd) {
    it(`gives the same answer where it has ${title}, which its own namespace is told of`, () => {
      const source = present(
        observe({ name: 'x', uid: 'u', resourceVersion: '1', creationTimestamp: '', annotations }).annotations,
      );
      assert.deepEqual(ask(source, 'victim/x', false), ask(MISSING, 'victim/x', false));
      const own = ask(source, 'me/y', false);
      assert.ok(own.kind === 'fail' && own.reason !== 'Denied');
    });
  }

  it('reports problems of the source to the namespaces it allows', () => {
    const allowed = { [names.allowed]: 'true' };
    assert.match(
      JSON.stringify(ask(present({ ...allowed, 'k8s-replicator/x': '' }), 'victim/x', false)),
      /UnknownAnnotation/u,
    );
    assert.match(JSON.stringify(ask(present({ ...allowed, [names.once]: 'x' }), 'victim/x', false)), /IllFormed/u);
    const loop = {
      ...allowed,
      [names.from]: 'me/x',
      [names.inherited]: '.*',
      [names.origin]: 'me/x',
      [names.version]: '1',
    };
    assert.match(JSON.stringify(ask(present(loop), 'victim/x', false)), /Loop/u);
  });

  it('in the same namespace is reported exactly', () => {
    assert.match(JSON.stringify(ask(MISSING, 'me/y', false)), /NoSecret/u);
    assert.match(JSON.stringify(ask(present({}), 'me/y', false)), /Denied.*has neither annotation/u);
  });
});
