/** Checks when a SecretMirror counts for the limit of its namespace, and when it makes room. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { asKey } from '../../../../test/support/keys.ts';
import { ruleScope } from '../../../../test/support/rule-scope.ts';
import { Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import type { RuleKey } from '../../../copy/model/keys.ts';
import type { SecretMirror } from '../api.ts';
import { createMirrorStore } from './mirror-store.ts';
import { MirrorRules } from './rule-set.ts';

test('a mirror without room gets TooManyTargets; it is evaluated again when another one gets smaller, is being deleted, or is gone', async () => {
  const namespaces = new Namespaces();
  for (let index = 0; index < 120; index += 1) {
    const metadata = { name: `ns-${index}`, uid: '', resourceVersion: '', creationTimestamp: '' };
    namespaces.sink.upsert({ metadata });
  }
  const mirrors = createMirrorStore();
  const woken: RuleKey[] = [];
  const scope = ruleScope({ namespaces, onRoom: (rule) => woken.push(rule) });
  const rules = new MirrorRules(scope, { mirrors, viewOf: () => assert.fail('not used') });
  let version = 0;
  const mirror = (name: string, patterns: readonly string[], deletionTimestamp?: string): SecretMirror => {
    version += 1;
    const common = { name, namespace: 'home', uid: name, resourceVersion: `${version}`, creationTimestamp: '' };
    return {
      metadata: { ...common, generation: version, ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }) },
      spec: { source: { name }, destination: { namespaces: patterns } },
    };
  };
  const evaluate = async (one: SecretMirror): Promise<string> => {
    mirrors.put(one);
    const { claims = [], refusal } =
      (await rules.evaluate(asKey(`mirrors:home/${one.metadata.name}`), NO_COPIES)) ?? {};
    return refusal?.reason ?? `${claims.length}`;
  };
  for (let index = 0; index < 83; index += 1) assert.equal(await evaluate(mirror(`m-${index}`, ['ns-.*'])), '120');
  assert.equal(await evaluate(mirror('late', ['ns-.*'])), 'TooManyTargets');
  assert.equal(await evaluate(mirror('small', ['ns-1'])), '1');
  assert.deepEqual(woken, []);
  const late = asKey<RuleKey>('mirrors:home/late');

  assert.equal(await evaluate(mirror('m-0', ['ns-1'])), '1');
  assert.deepEqual(woken.splice(0), [late]);
  assert.equal(await evaluate(mirror('late', ['ns-.*'])), '120');

  assert.equal(await evaluate(mirror('m-0', ['ns-.*'])), 'TooManyTargets');
  await evaluate(mirror('m-1', ['ns-.*'], '2026-01-01T00:00:00Z'));
  assert.deepEqual(woken.splice(0), [asKey('mirrors:home/m-0')]);
  assert.equal(await evaluate(mirror('m-0', ['ns-.*'])), '120');

  assert.equal(await evaluate(mirror('m-2', ['ns-.*', 'other'])), '120', 'it does not grow');
  assert.equal(await evaluate(mirror('late-too', ['ns-.*'])), 'TooManyTargets');
  mirrors.sink.remove(mirror('m-2', []));
  assert.equal(await rules.evaluate(asKey('mirrors:home/m-2'), NO_COPIES), undefined);
  assert.deepEqual(woken, [asKey('mirrors:home/late-too')]);
});

const NO_COPIES = { ownedBy: () => [] };
