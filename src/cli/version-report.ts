/** The output of `keyferry version`: Keyferry, Node, and the servers that Keyferry was tested with. */
import { reportText } from '../commands/output/text.ts';
import type { VersionReport } from '../../scripts/reports/schemas.ts';
import type { Build } from '../config/version.ts';

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
