/** Reads the alerts and the dashboard that the chart installs, for the tests. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';

const ROOT = path.join(import.meta.dirname, '../../..');
const FILES = path.join(ROOT, 'deploy/helm/keyferry/files');

export const ALERTS_FILE = path.join(FILES, 'alerts.yaml');
/** The folder of the runbook, which has one page for each alert. */
export const RUNBOOK = path.join(ROOT, 'docs/runbook');

export interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: {
    readonly summary: string;
    readonly description: string;
    readonly runbook_url: string;
  };
}

export function readAlerts(): Alert[] {
  const { groups } = parse(readFileSync(ALERTS_FILE, 'utf8')) as { groups: { rules: Alert[] }[] };
  return groups.flatMap(({ rules }) => rules);
}

export interface PanelQuery {
  /** The title of the panel that has the query. */
  readonly panel: string;
  readonly expr: string;
}

interface Dashboard {
  readonly panels: readonly { readonly title: string; readonly targets?: readonly { readonly expr: string }[] }[];
}

/** All queries of the dashboard, as Grafana sends them when all jobs are selected. */
export function readQueries(): PanelQuery[] {
  const { panels } = JSON.parse(readFileSync(path.join(FILES, 'dashboard.json'), 'utf8')) as Dashboard;
  return panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => {
      return { panel: title, expr: expr.replaceAll('$job', '.+').replaceAll('$__rate_interval', '1m') };
    }),
  );
}
