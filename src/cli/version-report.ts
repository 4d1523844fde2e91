/** `keyferry version`. */
import { reportText } from '../commands/output/text.ts';
import type { Build } from '../config/version.ts';

/** The output of `keyferry version -o json`. The schema is docs/schemas/version.json. */
export interface VersionReport extends Build {
  readonly apiVersion: 'keyferry.dev/v1';
  readonly kind: 'Version';
}

/** The text that the command prints. */
export function versionText(build: Build, output: 'table' | 'json' | 'yaml'): string {
  const { version, commit, node, platform, tested } = build;
  if (output === 'table') {
    const servers = tested.map(({ kubernetes, vault, date }) => `Kubernetes ${kubernetes}, ${vault} (${date})`);
    const lines = [`Keyferry ${version}`, `commit   ${commit}`, `Node     ${node}`, `platform ${platform}`];
    const more = servers.map((text, n) => `${n === 0 ? 'tested  ' : '        '} ${text}`);
    return [...lines, ...more, ''].join('\n');
  }
  const report: VersionReport = { apiVersion: 'keyferry.dev/v1', kind: 'Version', ...build };
  return reportText(report, output);
}
