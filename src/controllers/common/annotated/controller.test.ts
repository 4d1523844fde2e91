import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asKey } from '../../../../test/support/keys.ts';
import { observedObject } from '../../../../test/support/observed-object.ts';
import type { ObjectEvents } from '../../../copy/engine/backend.ts';
import { Engine } from '../../../copy/engine/engine.ts';
import type { ObjectKey, RuleKey } from '../../../copy/model/keys.ts';
import { PLACE_ANNOTATION } from '../../../copy/model/observed.ts';
import type { ControllerContext } from '../context.ts';
import { annotatedController } from './controller.ts';
import type { AnnotatedRules } from './rules.ts';

const RULE: RuleKey = asKey('test:team/source');
const SOURCE: ObjectKey = asKey('c:Secret/team/source');
const COPY: ObjectKey = asKey('c:Secret/other/source');

test('what a rule that went leaves is told again until it was told', () => {
  const engine = new Engine({ onError: () => undefined });
  const rules: Pick<AnnotatedRules, 'name' | 'markOn' | 'versionOf' | 'ruleOf' | 'kinds'> = {
    name: 'test',
    markOn: ({ annotations }) => (annotations['mark'] === undefined ? undefined : { rule: RULE }),
    versionOf: ({ annotations }) => annotations['rule'],
    kinds: [],
    ruleOf: (key) => (key === SOURCE ? RULE : undefined),
  };
  let changed: Partial<ObjectEvents>['objectChanged'];
  const context = {
    engine: {
      claims: engine.claims,
      book: engine.book,
      enqueueRule: () => undefined,
      onObjects: (listener: Partial<ObjectEvents>) => (changed = listener.objectChanged),
    },
    namespaceChanges: { serve: () => undefined },
  };
  const controller = annotatedController(context as unknown as ControllerContext, rules as unknown as AnnotatedRules);
  void controller.open(new AbortController().signal);
  engine.claims.add(controller.rules);
  const copy = observedObject({ annotations: { mark: 'x', [PLACE_ANNOTATION]: 'other/source' } });
  engine.claims.objectChanged(COPY, undefined, copy);
  engine.claims.put(RULE, { owner: { key: RULE, title: '', rank: '' }, version: '1', claims: [], sources: [] });
  changed?.(SOURCE, observedObject({ annotations: { rule: '1' } }), observedObject({}), false);
  engine.claims.put(RULE, undefined);
  const gone = () => controller.report({ key: RULE, rule: undefined });
  const told = gone();
  assert.equal(told?.remarks?.[0]?.reason, 'RuleRemoved');
  assert.deepEqual(gone()?.remarks, told.remarks, 'the first try failed');
  told.written?.();
  assert.equal(gone(), undefined);
});
