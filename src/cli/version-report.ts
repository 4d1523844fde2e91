/** `keyferry version`. */
import { reportText } from './report-text.ts';
import type { Build } from './version.ts';

/** The output of `keyferry version -o json`. The schema is docs/schemas/version.json. */
export interface VersionReport extends Build {
  readonly apiVersion: 'keyferry.dev/v1';
  readonly kind: 'Version';
}

/** The text that the command prints. */
export function versionText(build: Build, output: 'table' | 'json' | 'yaml'): string {
  const { version, commit, node, platform } = build;
  if (output === 'table') return `Keyferry ${version}\ncommit   ${commit}\nNode     ${node}\nplatform ${platform}\n`;
  const report: VersionReport = { apiVersion: 'keyferry.dev/v1', kind: 'Version', ...build };
  return reportText(report, output);
}
