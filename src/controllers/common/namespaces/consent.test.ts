/**
 * Tests how a consent is parsed, and that each mistake in a consent causes one event. With a real API server:
 * test/scenarios/reach.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ACCEPT_FROM_ANNOTATION, Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import { Consents, ConsentWatch } from './consent.ts';

test('a mistake in a consent is reported once, and again if the mistake returns or the namespace is recreated', () => {
  const reported: string[] = [];
  const namespaces = new Namespaces();
  let version = 0;
  const put = (acceptFrom: string | undefined, uid = 'u1'): void => {
    version += 1;
    const annotations = acceptFrom === undefined ? {} : { [ACCEPT_FROM_ANNOTATION]: acceptFrom };
    const metadata = { name: 'team', uid, resourceVersion: String(version), creationTimestamp: '', annotations };
    namespaces.sink.upsert({ metadata });
  };
  put('(');
  new ConsentWatch(namespaces, new Consents(), ({ subject, reason }) =>
    reported.push(`${reason} ${subject.uid}`),
  ).start();
  assert.deepEqual(reported.splice(0), ['InvalidConsent u1'], 'the namespace existed at the start');
  put('(');
  assert.deepEqual(reported.splice(0), []);
  put('home');
  put('(');
  assert.deepEqual(reported.splice(0), ['InvalidConsent u1'], 'the mistake is back');
  put(undefined);
  put('(');
  assert.deepEqual(reported.splice(0), ['InvalidConsent u1'], 'the consent is back');
  put('(', 'u2');
  assert.deepEqual(reported.splice(0), ['InvalidConsent u2'], 'the namespace was recreated');
  put('home, web-*', 'u2');
  assert.deepEqual(reported.splice(0), ['MisreadPattern u2'], 'a glob that matches no namespace');
  put('team*', 'u2');
  assert.deepEqual(reported.splice(0), [], 'a pattern that looks like a glob but matches a namespace');
});

test('if a consent has an empty pattern, a wrong pattern or too many characters, its problem names this mistake', () => {
  const consents = new Consents();
  assert.deepEqual(consents.of(''), { patterns: [] });
  assert.deepEqual(consents.of('a,'), { problem: 'has an empty pattern beside a comma' });
  const broken = consents.of('(');
  assert.ok('problem' in broken && broken.problem.startsWith('"(" is not a pattern'));
  const long = consents.of('a,'.repeat(10_000));
  assert.deepEqual(long, { problem: 'is longer than 16384 characters' });
});
