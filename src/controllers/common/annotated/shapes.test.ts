/** One write changes the data of a source and its annotations. Its rule is evaluated later: what do its copies get until then? */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { observedObject } from '../../../../test/support/observed-object.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';
import { ruleKeyOfKind } from '../../../copy/model/keys.ts';
import { ConfigSyncerRules } from '../../config-syncer/rules.ts';
import { MittwaldRules } from '../../mittwald/rules.ts';
import { ReflectorRules } from '../../reflector/rules.ts';
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
      'kubed.appscode.com/sync': list.includes('team-a') ? '' : 'kubernetes.io/metadata.name=team-b',
    }),
  ],
] as const;

for (const [Rules, annotationsFor] of RULES) {
  const scope = ruleScope();
  for (const namespace of ['team-a', 'team-b']) scope.namespaces.assume(namespace);
  const given = annotationsFor('team-a,team-b');
  const rules = new Rules(scope, () => observedObject({ annotations: given }));

  test(`${rules.name}: no copy gets new data of a source that says something else than its rule, or is suspended`, async () => {
    const key = ruleKeyOfKind(rules.name, 'Secret', 'home', 'db');
    const { claims = [] } = (await rules.evaluate(key, { ownedBy: () => [] })) ?? {};
    assert.equal(claims.length, 2);
    const kindsWith = (annotations: Annotations): readonly string[] => {
      const view = { state: 'present', version: '2', labels: {}, annotations } as const;
      return claims.map(({ claim }) => claim.shape.desiredState(view, undefined, 0).kind);
    };
    assert.deepEqual(kindsWith({ ...given, 'example.com/other': 'x' }), ['be', 'be']);
    for (const other of [annotationsFor('team-b'), { ...given, 'keyferry.dev/suspend': 'true' }, {}])
      assert.deepEqual(kindsWith(other), ['wait', 'wait']);
  });
}
