/** The exit code of `migrate`, and its text if it finds no objects. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MigrationReport } from '../../../scripts/reports/schemas.ts';

import type { FindingVerdict } from './program.ts';
import { exitCodeOf, type MigrationFinding, migrationText } from './report.ts';

const OBJECT = { kind: 'Secret', namespace: 'team', name: 'db' };

function codeOf(...findings: readonly (readonly [FindingVerdict, MigrationFinding['result']])[]): number {
  const made = findings.map(([verdict, result]): MigrationFinding => {
    return { verdict, object: OBJECT, text: '', annotations: null, result, error: null };
  });
  const programs = [{ program: 'k8s-replicator', rules: 0, copies: 0, running: [], findings: made } as const];
  return exitCodeOf({ programs, targets: [] });
}

test('migrate exits with 3 while a finding needs a decision, and with 1 if a write failed', () => {
  assert.equal(codeOf(), 0);
  assert.equal(codeOf(['manual', null]), 3);
  assert.equal(codeOf(['unsupported', null]), 3);
  assert.equal(codeOf(['leftover', null]), 3);
  assert.equal(codeOf(['leftover', 'deleted']), 0);
  assert.equal(codeOf(['leftover', 'deleted'], ['leftover', 'skipped']), 3);
  assert.equal(codeOf(['leftover', 'deleted'], ['leftover', 'failed']), 1);
});

test('if migrate finds no objects, it names the program of --from, or all programs that it knows', () => {
  const none = { programs: [], targets: [], unchanged: 0, notes: [] };
  const report: MigrationReport = { apiVersion: 'keyferry.dev/v1', kind: 'Migration', cluster: 'c', ...none };
  const textFor = (from: 'reflector' | undefined): string =>
    migrationText(report, { from, apply: false }, (text) => text);
  assert.equal(textFor('reflector'), 'No objects of reflector.\n');
  assert.match(textFor(undefined), /^No objects of these programs: mirrors, k8s-replicator, .*\.\n$/);
});
