/** Which annotations are kept at any length. If users could choose the names, many long ones would fill the memory. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { findControllerCommand } from '../config/commands.ts';
import { MIRROR_ANNOTATIONS } from '../controllers/mirrors/api.ts';
import { ORIGIN_ANNOTATION, OWNER_ANNOTATION } from '../controllers/syncsecret/rules/marks.ts';
import { PLACE_ANNOTATION } from '../copy/model/observed.ts';
import { readAnnotations } from './operator.ts';

const MARKS = [ORIGIN_ANNOTATION, OWNER_ANNOTATION, PLACE_ANNOTATION];
const INVENTED = ['keyferry.dev/invented', 'mirrors.kts.studio/invented', 'example.com/invented'];

function readBy(command: string, annotations: readonly string[]): readonly string[] {
  const processInfo = { env: { HOME: '/home/a' }, hostname: 'host', uniqueId: 'u1' };
  const config = findControllerCommand(command)?.configure([], processInfo);
  assert.ok(config);
  const isRead = readAnnotations(config);
  return annotations.filter((annotation) => isRead(annotation) === true);
}

test('every process keeps long marks of all controllers, but no long annotations with invented names', () => {
  for (const command of ['run', 'mirrors', 'replicator', 'syncsecret-manager']) {
    assert.deepEqual(readBy(command, [...MARKS, ...INVENTED]), MARKS, command);
  }
});

test('a process that serves only tenants keeps no long annotations of other controllers; other processes keep them', () => {
  const others = [MIRROR_ANNOTATIONS.ownedBy, 'k8s-replicator/invented'];
  assert.deepEqual(readBy('mirrors', others), others);
  assert.deepEqual(readBy('syncsecret-manager', others), []);
});
