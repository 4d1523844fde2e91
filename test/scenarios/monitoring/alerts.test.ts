/** Tests the alerts with promtool: each fires for its case, but neither too early nor for a similar case. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, it } from 'node:test';
import { stringify } from 'yaml';

import { promtool } from '../../servers/prometheus.ts';
import { Reaper } from '../../servers/reaper.ts';
import { ALERT_CASES, type AlertCase } from './alert-cases.ts';
import { type Alert, ALERTS_FILE, readAlerts, RUNBOOK } from './files.ts';

const alerts = readAlerts();
const alertNamed = (name: string): Alert => {
  const found = alerts.find(({ alert }) => alert === name);
  assert.ok(found, `no alert ${name}`);
  return found;
};

describe('the alerts', () => {
  it('every alert is valid, and has a runbook page with symptom, commands, causes and fix', async () => {
    await promtool('check', 'rules', '--lint-fatal', ALERTS_FILE);
    for (const { alert, annotations } of alerts) {
      assert.ok(annotations.runbook_url.endsWith(`/docs/runbook/${alert}.md`), annotations.runbook_url);
      const page = path.join(RUNBOOK, `${alert}.md`);
      assert.ok(existsSync(page), `${page} is missing`);
      const text = readFileSync(page, 'utf8');
      for (const heading of [`# ${alert}`, '## Symptom', '## Commands', '## Causes', '## Fix'])
        assert.match(text, new RegExp(`^${heading}$`, 'm'), `${heading} in ${page}`);
    }
    const pages = readdirSync(RUNBOOK).filter((page) => page !== 'README.md');
    assert.deepEqual(pages.toSorted(), alerts.map(({ alert }) => `${alert}.md`).toSorted(), 'a page without an alert');
  });

  it('every alert fires for its test case at the expected time, not earlier and not for a similar case', async () => {
    assert.deepEqual(ALERT_CASES.map(({ alert }) => alert).toSorted(), alerts.map(({ alert }) => alert).toSorted());
    const file = path.join(await Reaper.shared().temporaryFolder('keyferry-alerts-'), 'tests.yaml');
    const tests = ALERT_CASES.flatMap((one) => [firing(one), quiet(one)]);
    await writeFile(file, stringify({ rule_files: [ALERTS_FILE], evaluation_interval: '1m', tests }));
    await promtool('test', 'rules', file);
  });
});

function firing({ alert, fires, after, notAt, labels, description }: AlertCase): unknown {
  const { labels: own, annotations } = alertNamed(alert);
  const expected = { exp_labels: { ...labels, ...own }, exp_annotations: { ...annotations, description } };
  const before = notAt === undefined ? [] : [{ eval_time: `${notAt}m`, alertname: alert, exp_alerts: [] }];
  return {
    interval: '1m',
    name: `${alert} fires`,
    input_series: seriesOf(fires),
    alert_rule_test: [...before, { eval_time: `${after}m`, alertname: alert, exp_alerts: [expected] }],
  };
}

function quiet({ alert, quiet: series, after }: AlertCase): unknown {
  return {
    interval: '1m',
    name: `${alert} is quiet`,
    input_series: seriesOf(series),
    alert_rule_test: [{ eval_time: `${after}m`, alertname: alert, exp_alerts: [] }],
  };
}

function seriesOf(series: Readonly<Record<string, string>>): unknown {
  return Object.entries(series).map(([name, values]) => ({ series: name, values }));
}
