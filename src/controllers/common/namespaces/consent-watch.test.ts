/** One event for each mistake in a consent. With a real API server: test/scenarios/reach. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ACCEPT_FROM_ANNOTATION, Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import { ConsentWatch } from './consent-watch.ts';

test('a mistake in a consent is reported once, and once more if the mistake returns or the namespace is another one', () => {
  const reported: string[] = [];
  const namespaces = new Namespaces();
  let version = 0;
  const put = (acceptFrom: string | undefined, uid = 'u1'): void => {
    version += 1;
    const annotations = acceptFrom === undefined ? {} : { [ACCEPT_FROM_ANNOTATION]: acceptFrom };
    const metadata = { name: 'team', uid, resourceVersion: String(version), creationTimestamp: '', annotations };
    namespaces.sink.upsert({ metadata }, false);
  };
  put('(');
  new ConsentWatch(namespaces, ({ subject, reason }) => reported.push(`${reason} ${subject.uid}`)).start();
  assert.deepEqual(reported.splice(0), ['InvalidConsent u1'], 'of a namespace that was there at the start');
  put('(');
  assert.deepEqual(reported.splice(0), []);
  put('home');
  put('(');
  assert.deepEqual(reported.splice(0), ['InvalidConsent u1'], 'the mistake is back');
  put(undefined);
  put('(');
  assert.deepEqual(reported.splice(0), ['InvalidConsent u1'], 'the consent is back');
  put('(', 'u2');
  assert.deepEqual(reported.splice(0), ['InvalidConsent u2'], 'another namespace has the name');
});
