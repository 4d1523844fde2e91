/** `keyferry plan`: what manifests would do on this cluster, without doing it. */
import type { KubeApi } from '../kube/api.ts';
import type { PlanOptions } from './actions.ts';
import { readManifests } from './plan/manifests.ts';
import { planMirrors } from './plan/mirrors.ts';
import { planReplicator } from './plan/replicator.ts';
import { Overlay } from './plan/overlay.ts';
import type { PlanReport } from './plan/report.ts';
import { textTable } from './text-table.ts';

export interface PlanContext {
  readonly api: KubeApi;
  /** Namespace of objects that name none. */
  readonly namespace: string;
  readonly stdin: () => Promise<string>;
  /** Wall clock, ms. */
  readonly now: number;
  readonly signal?: AbortSignal;
}

/**
 * The text that the command prints.
 * @throws ManifestError naming file and document, and what `api.request` throws
 */
export async function planFiles(
  { api, namespace, stdin, now, signal }: PlanContext,
  { files, output, replicator }: Pick<PlanOptions, 'files' | 'output' | 'replicator'>,
): Promise<string> {
  const manifests = await readManifests(files, stdin);
  const overlay = new Overlay(api, manifests, namespace, now);
  const mirrors = await planMirrors(api, overlay, now, signal);
  const annotated = await planReplicator({ api, manifests, namespace, options: replicator, now, signal });
  const report: PlanReport = {
    targets: [...mirrors.targets, ...annotated.targets],
    problems: [...mirrors.problems, ...annotated.problems],
    notes: [...mirrors.notes, ...annotated.notes],
    ignored: overlay.ignored + annotated.ignored,
  };
  return output === 'json' ? `${JSON.stringify(report, undefined, 2)}\n` : tables(report);
}

function tables({ targets, problems, notes, ignored }: PlanReport): string {
  const lines: string[] = problems.map(({ rule, problem }) => `${rule}: ${problem}`);
  lines.push(...notes.map(({ rule, note }) => `${rule}: ${note}`));
  if (lines.length > 0) lines.push('');
  if (targets.length === 0) {
    lines.push('No copy would be made, changed or removed.');
  } else {
    const rows = targets.map(({ action, kind, namespace, name, rule, reason }) => {
      return [action, kind, namespace, name, rule, reason];
    });
    lines.push(...textTable(['ACTION', 'KIND', 'NAMESPACE', 'NAME', 'FOR', 'WHY'], rows), '', summary(targets));
  }
  if (ignored > 0) lines.push(`${ignored} ${ignored === 1 ? 'object is' : 'objects are'} of no concern here.`);
  return `${lines.join('\n')}\n`;
}

function summary(targets: PlanReport['targets']): string {
  const counts = new Map<string, number>();
  for (const { action } of targets) counts.set(action, (counts.get(action) ?? 0) + 1);
  return [...counts].map(([action, count]) => `${count} × ${action}`).join(', ');
}
