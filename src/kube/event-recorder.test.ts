/** Checks which failed writes of Events are tried again. test/scenarios/kube/events.test.ts uses a real API server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ManualClock } from '../../test/support/manual-clock.ts';
import type { KubeApi } from './api.ts';
import { ApiError, ConnectionError } from './errors.ts';
import { EventRecorder } from './event-recorder.ts';

const answer = (status: number): ApiError =>
  new ApiError({ method: 'POST', path: '' }, status, { reason: '', message: '', causes: [] });

test('an Event whose write fails is tried again, at most six times; a refused Event is dropped at once', async () => {
  const noAnswer = new ConnectionError('ETIMEDOUT', 'no answer');
  for (const [error, failures, tries, isWritten] of [
    [noAnswer, 5, 6, true],
    [noAnswer, 6, 6, false],
    [answer(503), 1, 2, true],
    [answer(403), 1, 1, false],
  ] as const) {
    const clock = new ManualClock();
    const drops: string[] = [];
    let seen = 0;
    const request = async (): Promise<unknown> => {
      seen += 1;
      return await (seen <= failures ? Promise.reject(error) : Promise.resolve({}));
    };
    const api = { request } as unknown as KubeApi;
    const events = new EventRecorder({ api, instance: 'i', clock, onDrop: ({ reason }) => drops.push(reason) });
    const subject = { apiVersion: 'v1', kind: 'Secret', name: 'x', namespace: 'n', uid: 'u' };
    events.record('c', { subject, type: 'Warning', reason: 'R', message: 'm' });
    for (let n = 0; n < 10; n++) await clock.advance(10_000);
    assert.deepEqual([seen, drops, events.pending], [tries, isWritten ? [] : ['R'], 0], `${error.message} ${failures}`);
    await events.stop();
  }
});
