/** One write changes the data of a source and its annotations. Its rule is evaluated later: what do its copies get until then? */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { observedObject } from '../../../../test/support/observed-object.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';
import { ruleKeyOfKind } from '../../../copy/model/keys.ts';
import { ConfigSyncerRules } from '../../config-syncer/rules.ts';
import { MittwaldRules } from '../../mittwald/rules.ts';
import { KeysShape } from '../../mittwald/shape.ts';
import { ReflectorRules } from '../../reflector/rules.ts';
import { DirectShape } from '../../reflector/shape.ts';
import { ReplicatorRules } from '../../replicator/rules.ts';

type Annotations = Readonly<Record<string, string>>;

const REFLECTOR = 'reflector.v1.k8s.emberstack.com/reflection-';
const RULES = [
  [ReplicatorRules, (list: string) => ({ 'k8s-replicator/replicate-to-namespaces': list })],
  [
    ReflectorRules,
    (list: string) => ({
      [`${REFLECTOR}allowed`]: 'true',
      [`${REFLECTOR}auto-enabled`]: 'true',
      [`${REFLECTOR}auto-namespaces`]: list,
    }),
  ],
  [MittwaldRules, (list: string) => ({ 'replicator.v1.mittwald.de/replicate-to': list })],
  [
    ConfigSyncerRules,
    (list: string) => ({
      'kubed.appscode.com/sync': list.includes('team-a') ? '' : 'team=team-b',
    }),
  ],
] as const;

for (const [Rules, annotationsFor] of RULES) {
  const scope = ruleScope();
  for (const name of ['team-a', 'team-b'])
    scope.namespaces.sink.upsert({
      metadata: { name, uid: name, resourceVersion: '1', creationTimestamp: '', labels: { team: name } },
    });
  const given = annotationsFor('team-a,team-b');
  let annotations: Annotations = given;
  const rules = new Rules(scope, () => observedObject({ annotations }));

  test(`${rules.name}: no copy gets new data of a source that says something else than its rule, or is suspended`, async () => {
    const key = ruleKeyOfKind(rules.name, 'Secret', 'home', 'db');
    const evaluate = async () => (await rules.evaluate(key, { ownedBy: () => [] }))?.claims ?? [];
    const claims = await evaluate();
    assert.equal(claims.length, 2);
    const kindsWith = (now: Annotations): readonly string[] => {
      const view = { state: 'present', version: '2', labels: {}, annotations: now } as const;
      return claims.map(({ claim }) => claim.shape.desiredState(view, undefined, 0).kind);
    };
    assert.deepEqual(kindsWith({ ...given, 'example.com/other': 'x' }), ['be', 'be']);
    for (const other of [annotationsFor('team-b'), { ...given, 'keyferry.dev/suspend': 'true' }, {}])
      assert.deepEqual(kindsWith(other), ['wait', 'wait']);
    annotations = annotationsFor('team-b');
    const [later] = await evaluate();
    assert.ok(later !== undefined && later.claim.shape.id !== claims[0]?.claim.shape.id, 'the rule makes new claims');
  });
}

for (const [Shape, from] of [
  [DirectShape, 'reflector.v1.k8s.emberstack.com/reflects'],
  [KeysShape, 'replicator.v1.mittwald.de/replicate-from'],
] as const)
  test(`${from}: an object gets data only if its source permits it, and while it is not suspended`, () => {
    const [target, source] = [
      { namespace: 'team', name: 'db' },
      { namespace: 'home', name: 'db' },
    ];
    const shape = new Shape(target, source, (annotations) => annotations['permits'] === 'yes', '');
    const kindOf = (permits: string, more: Annotations = {}): string => {
      const view = { state: 'present', version: '2', labels: {}, annotations: { permits } } as const;
      return shape.desiredState(view, observedObject({ annotations: { [from]: 'home/db', ...more } }), 0).kind;
    };
    const kinds = [kindOf('yes'), kindOf('no'), kindOf('yes', { 'keyferry.dev/suspend': 'true' })];
    assert.deepEqual(kinds, ['be', 'fail', 'wait']);
  });
