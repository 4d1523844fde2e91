import assert from 'node:assert/strict';
import { it } from 'node:test';

import { originPlace } from './marks.ts';

type Case = readonly [
  annotations: Readonly<Record<string, string>>,
  labels: Readonly<Record<string, string>>,
  string | undefined,
];

it('originPlace() reads the annotation, otherwise the labels; if both are missing or malformed, it returns undefined', () => {
  const labels = { 'kubelb.k8c.io/origin-name': 'app', 'kubelb.k8c.io/origin-ns': 'team' };
  const documented = { 'kubelb.k8c.io/origin-name': 'app', 'kubelb.k8c.io/origin-namespace': 'docs' };
  const mark = (text: string) => ({ 'keyferry.dev/origin': text });
  const cases: readonly Case[] = [
    [mark('0a1b-uid/production/app.tls-1'), labels, 'production/app.tls-1'],
    [mark('unknown/production/app'), {}, 'production/app'],
    [{}, labels, 'team/app'],
    [{}, documented, 'docs/app'],
    [{}, { 'kubelb.k8c.io/origin-name': 'app' }, undefined],
    [{}, {}, undefined],
    [mark('uid/a/b/c'), labels, 'team/app'],
    [mark('uid/production/\u001B[31mapp'), labels, 'team/app'],
    [mark('uid/production/app\nREADY True'), {}, undefined],
    [mark(''), {}, undefined],
  ];
  for (const [annotations, given, expected] of cases) {
    assert.equal(originPlace({ annotations, labels: given }), expected, JSON.stringify([annotations, given]));
  }
});
