/** Tests what is known of the labels of namespaces between the arrival of a rule and its first evaluation. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { asKey } from '../../../../test/support/keys.ts';
import { observedObject } from '../../../../test/support/observed-object.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';
import { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import type { OnObjectChange } from '../../../copy/engine/backend.ts';
import type { ObjectKey, ResourceKey, RuleKey } from '../../../copy/model/keys.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import { parseSelector } from '../../../runtime/text/label-selector.ts';
import { ConfigSyncerRules } from '../../config-syncer/rules.ts';
import { MittwaldRules } from '../../mittwald/rules.ts';
import { ReflectorRules } from '../../reflector/rules.ts';
import type { ControllerContext, RuleScope } from '../context.ts';
import { selectionOf } from '../namespaces/selection.ts';
import { RuleTargets } from '../rules/rule-targets.ts';
import { annotatedController, type AnnotatedRules } from './controller.ts';
import type { FindObject } from './objects.ts';

const TARGET = asKey<ResourceKey>('c:Secret/team/db');
const TEAM = { name: 'team', uid: 'u', resourceVersion: '1', creationTimestamp: '' };
const unused = (): never => assert.fail('not used');
const reflector = (name: string): string => `reflector.v1.k8s.emberstack.com/reflection-${name}`;

interface Row {
  readonly system: string;
  readonly make: (scope: RuleScope, find: FindObject) => AnnotatedRules;
  readonly annotations: Observed['annotations'];
}

const ROWS: readonly Row[] = [
  {
    system: 'config-syncer',
    make: (scope, find) => new ConfigSyncerRules(scope, find),
    annotations: { 'kubed.appscode.com/sync': 'tier=prod' },
  },
  {
    system: 'mittwald',
    make: (scope, find) => new MittwaldRules(scope, find),
    annotations: { 'replicator.v1.mittwald.de/replicate-to-matching': 'tier=prod' },
  },
  {
    system: 'reflector',
    make: (scope, find) => new ReflectorRules(scope, find),
    annotations: {
      [reflector('allowed')]: 'true',
      [reflector('auto-enabled')]: 'true',
      [reflector('allowed-namespaces')]: 'team',
      [reflector('auto-namespaces-selector')]: 'tier=prod',
    },
  },
];

function namespaces(): Namespaces {
  const there = new Namespaces();
  there.sink.upsert({ metadata: TEAM }, true);
  return there;
}

describe('a rule that selects by labels', () => {
  for (const { system, make, annotations } of ROWS) {
    it(`${system}: its label keys are kept when it arrives, and until they are known it may select a namespace`, async () => {
      const there = namespaces();
      const source = observedObject({ annotations });
      const rules = make(ruleScope({ namespaces: there }), (_kind, namespace) => {
        return namespace === 'home' ? source : undefined;
      });
      const enqueued: RuleKey[] = [];
      let changed: OnObjectChange = unused;
      const context = {
        engine: {
          onObjects: (one: { objectChanged: OnObjectChange }) => (changed = one.objectChanged),
          enqueueRule: (rule: RuleKey) => enqueued.push(rule),
          book: { rulesOn: () => [] },
        },
        cluster: { namespaces: there, watchAll: () => undefined },
        namespaceChanges: { serve: () => undefined },
      };
      const controller = annotatedController(context as unknown as ControllerContext, rules, unused);
      void controller.open(new AbortController().signal);
      changed(asKey<ObjectKey>('c:Secret/home/db'), undefined, source, true);
      const [rule = assert.fail('not enqueued')] = enqueued;
      const list = async (labels: Readonly<Record<string, string>>): Promise<void> =>
        await there.relist(async (take) => await Promise.resolve(take({ metadata: { ...TEAM, labels } })));
      assert.equal(rules.selects?.(rule, TARGET), true, 'no list has brought the labels');
      await list({ tier: 'test' });
      assert.ok(there.knows(['tier']), 'the list brought the labels of the rule');
      assert.equal(rules.selects?.(rule, TARGET), false);
    });
  }
});

test('if a namespace changes while an evaluation waits for labels, the rule is evaluated again', async () => {
  const there = namespaces();
  const rule = asKey<RuleKey>('toy:Secret/home/db');
  const listed = Promise.withResolvers<void>();
  const targets = new RuleTargets(ruleScope({ namespaces: there, labelsKnown: () => listed.promise }), 'toy');
  const selection = { ...selectionOf([]), orLabels: parseSelector('tier') };
  const found = targets.find(rule, { selection });
  await turn();
  const change = { changed: new Set(['tier']), initial: false };
  assert.deepEqual(await targets.rulesFor(new Map([['team', change]])), [rule]);
  listed.resolve();
  await found;
});

test('if the source of a direct mirror gets another selector while an evaluation waits for labels, it waits for these, too', async () => {
  const there = namespaces();
  const source = { [reflector('allowed')]: 'true', [reflector('allowed-namespaces-selector')]: 'tier' };
  const mirror = { 'reflector.v1.k8s.emberstack.com/reflects': 'home/db' };
  const objects: Record<string, Observed> = {
    home: observedObject({ annotations: source }),
    team: observedObject({ annotations: mirror }),
  };
  const asked: string[] = [];
  const labelsKnown = async (keys: readonly string[]): Promise<void> => {
    there.keep(keys);
    asked.push(...keys);
    const changed = { ...source, [reflector('allowed-namespaces-selector')]: 'other' };
    objects['home'] = observedObject({ annotations: changed });
    await there.relist(async (take) => {
      await Promise.resolve(take({ metadata: { ...TEAM, labels: { other: 'x' } } }));
    });
  };
  const rules = new ReflectorRules(ruleScope({ namespaces: there, labelsKnown }), (_kind, name) => objects[name]);
  const evaluation = await rules.evaluate(asKey('reflector:Secret/team/db'), { ownedBy: () => [] });
  assert.deepEqual(asked, ['tier', 'other']);
  assert.equal(evaluation?.claims.length, 1);
  assert.equal(rules.permits(objects['home']?.annotations ?? {}, 'team'), true);
});
