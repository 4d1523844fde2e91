import type { RuleStatus } from '../../src/commands/snapshot/status-report.ts';

/** A ready rule without copies, as the reports of status have it. */
export function ruleStatus(of: Pick<RuleStatus, 'system' | 'kind' | 'namespace' | 'name'>): RuleStatus {
  return {
    ...of,
    source: '',
    from: null,
    destinations: [],
    elsewhere: [],
    state: 'Active',
    ready: true,
    reason: 'Synced',
    message: '',
    since: null,
    lastSyncTime: null,
    copies: [],
    failing: [],
    refused: [],
    warnings: [],
  };
}
