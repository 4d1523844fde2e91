import assert from 'node:assert/strict';
import { it } from 'node:test';
import { metricValue, parseMetrics } from '../../../test/support/prometheus.ts';
import { createMetrics, MAX_RULES, type RuleSnapshot } from './metrics.ts';

const rule = (name: string, problem?: RuleSnapshot['problem']): RuleSnapshot => ({
  system: 'mirrors',
  rule: `a/${name}`,
  namespace: 'a',
  problem,
});
const OURS = { reason: 'Forbidden', fault: 'operator' } as const;
const THEIRS = { reason: 'NoSecret', fault: 'user' } as const;

async function scrape(rules: readonly RuleSnapshot[]): Promise<string> {
  const metrics = createMetrics('1');
  const none = (): [] => [];
  metrics.readFrom({
    queues: none,
    watches: none,
    claims: none,
    leases: none,
    payloadCacheBytes: () => 0,
    rules: () => rules,
  });
  return await metrics.text();
}

it('keyferry_rule_ready has one series for each rule, with reason and fault if the rule is not ready', async () => {
  const text = await scrape([rule('good'), rule('ours', OURS), rule('theirs', THEIRS)]);
  assert.deepEqual(
    parseMetrics(text).filter(({ name }) => name === 'keyferry_rule_ready'),
    [
      ['good', 'none', 'Ready', 1],
      ['ours', 'operator', 'Forbidden', 0],
      ['theirs', 'user', 'NoSecret', 0],
    ].map(([name, fault, reason, value]) => ({
      name: 'keyferry_rule_ready',
      labels: { system: 'mirrors', rule: `a/${name}`, rule_namespace: 'a', fault, reason },
      value,
    })),
  );
  assert.equal(metricValue(text, 'keyferry_rules', { fault: 'operator', reason: 'Forbidden' }), 1);
  assert.equal(metricValue(text, 'keyferry_rules_omitted'), 0);
});

it('if there are too many rules and reasons, only a limited number gets its own series, failing rules first', async () => {
  const good = Array.from({ length: MAX_RULES }, (_, index) => rule(`good-${index}`));
  const odd = Array.from({ length: 100 }, (_, index) => rule(`odd-${index}`, { reason: `R${index}`, fault: 'user' }));
  const text = await scrape([...good, ...odd, rule('ours', OURS)]);
  const series = parseMetrics(text).filter(({ name }) => name === 'keyferry_rule_ready');
  assert.equal(series.length, MAX_RULES);
  assert.equal(series.filter(({ value }) => value === 0).length, 101);
  assert.deepEqual(series[0]?.labels['rule'], 'a/ours');
  assert.equal(metricValue(text, 'keyferry_rules_omitted'), 101);
  assert.equal(metricValue(text, 'keyferry_rules'), MAX_RULES + 101, 'all are counted');
  assert.ok(new Set(series.map(({ labels }) => labels['reason'])).size <= 66);
});
