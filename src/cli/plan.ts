/** `keyferry plan`: what `kubectl apply` of manifests would change on this cluster. Writes nothing. */
import { stringify } from 'yaml';
import { MIRRORS_GROUP, SECRET_MIRROR_KIND } from '../controllers/mirrors/api.ts';
import { NOT_INSTALLED } from '../controllers/mirrors/crd-trouble.ts';
import { misreadPatterns } from '../controllers/mirrors/misread-patterns.ts';
import { mirrorRule } from '../controllers/mirrors/mirror-store.ts';
import { effectiveSpec, type EffectiveSpec } from '../controllers/mirrors/spec.ts';
import { parseResourceKey } from '../copy/model/keys.ts';
import type { KubeApi } from '../kube/api.ts';
import type { PlanOptions } from './actions.ts';
import { EXIT_ALARMING, EXIT_DONE } from './exit-codes.ts';
import { Look } from './look/look.ts';
import { reachNotes, requireReach } from './look/reach-notes.ts';
import { readManifests } from './plan/files.ts';
import { changesBy, type Given, givenOf } from './plan/changes.ts';
import {
  isAlarming,
  type PlannedNote,
  type PlannedProblem,
  type PlannedTarget,
  type PlanReport,
} from './plan/report.ts';
import { type Named, namedBy, rowsOf, touchedBy } from './plan/rows.ts';
import { vaultPlace } from './status/mirrors.ts';
import { textTable } from './text-table.ts';

/** The server drops its fields, because the CRD stores v1alpha2. */
const UNCONVERTED = `${MIRRORS_GROUP}/v1alpha1 ${SECRET_MIRROR_KIND}`;

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
 * The text that the command prints, and its exit code.
 * @throws ManifestError naming file, document and field, and what `api.request` throws
 */
export async function planFiles(
  context: PlanContext,
  options: Omit<PlanOptions, 'kubeconfig' | 'context'>,
): Promise<{ readonly text: string; readonly code: number }> {
  const { api, namespace: home, stdin, now, signal } = context;
  const manifests = await readManifests(options.files, options.recursive, stdin);
  const given = manifests.flatMap((manifest, index) => givenOf(manifest, home, index) ?? []);
  const { regexMode, replicator } = options;
  const changes = changesBy(api.cluster, given, now);
  const look = await Look.at({ api, regexMode, replicator, changes, now, signal });
  requireReach(look.inventory, ['Namespace', 'SecretMirror', 'Secret']);
  const named = namedBy(api.cluster, given);
  const touched = touchedBy(look, named);
  const rows = await rowsOf(look, touched);
  const news = rows.filter(({ isNews }) => isNews).map(({ row }) => row);
  const problems = given.flatMap((one) => problemsOf(look, one));
  const lacksApi = look.inventory.reach(SECRET_MIRROR_KIND).extent === 'not installed';
  const unconcerned = [...named.objects].filter((key) => {
    return parseResourceKey(key).kind === 'ConfigMap' && !touched.concerned.has(key) && !touched.targets.has(key);
  });
  const report: PlanReport = {
    apiVersion: 'keyferry.dev/v1',
    kind: 'Plan',
    targets: options.all ? rows.map(({ row }) => row) : news,
    problems,
    notes: [
      ...(lacksApi && named.mirrors.size > 0 ? [{ rule: 'cluster', note: NOT_INSTALLED }] : []),
      ...reachNotes(look.inventory).map((note) => ({ rule: 'rights', note })),
      ...notesOn(look, named),
    ],
    unchanged: rows.length - news.length,
    ignored: manifests.length - given.length + unconcerned.length,
  };
  const code = isAlarming({ targets: news, problems }) ? EXIT_ALARMING : EXIT_DONE;
  if (options.output === 'table') return { text: tables(report, options.all), code };
  return { text: options.output === 'json' ? `${JSON.stringify(report, undefined, 2)}\n` : stringify(report), code };
}

/** Why the server or Keyferry would refuse a manifest. */
function problemsOf(look: Look, { manifest, kind, content, namespace }: Given): PlannedProblem[] {
  const { name } = manifest.metadata;
  const rule = `${kind} ${namespace}/${name}`;
  const problems: PlannedProblem[] = [];
  if (kind !== 'Namespace' && look.inventory.isWhole('Namespace') && !look.inventory.namespaces.has(namespace)) {
    problems.push({ rule, problem: `namespace ${namespace} does not exist` });
  }
  if (content === undefined) {
    if (manifest.kind === UNCONVERTED) {
      return [...problems, { rule, problem: 'apiVersion v1alpha1 is not converted: use v1alpha2' }];
    }
    const mirror = look.inventory.mirrors.get(mirrorRule(namespace, name));
    const refusal = look.mirrorReconciler.refusalOf(mirrorRule(namespace, name));
    if (refusal !== undefined) return [...problems, { rule, problem: refusal }];
    const found = mirror === undefined ? [] : effectiveSpec(mirror, look.patterns).problems;
    return [...problems, ...found.map((problem) => ({ rule, problem }))];
  }
  const key = look.key(content, namespace, name);
  const observed = look.inventory.objects.get(key);
  if (look.replicator.ruleOf(key) === undefined || observed === undefined) return problems;
  const replication = look.askedBy(key, observed);
  return replication?.kind === 'broken' ? [...problems, { rule, problem: replication.refusal.message }] : problems;
}

/** Notes on the mirrors in the manifests, and on mirrors whose source is in them. */
function notesOn(look: Look, named: Named): PlannedNote[] {
  const notes: PlannedNote[] = [];
  for (const [rule, mirror] of look.inventory.mirrors.all()) {
    const evaluation = look.rules.get(rule);
    if (evaluation === undefined) continue;
    if (!named.mirrors.has(rule) && !evaluation.sources.some((source) => named.objects.has(source))) continue;
    const note = noteOn(
      effectiveSpec(mirror, look.patterns),
      evaluation.claims.length,
      look.inventory.namespaces.names(),
    );
    if (note !== undefined) notes.push({ rule: evaluation.owner.title, note });
  }
  return notes;
}

function noteOn(spec: EffectiveSpec, claims: number, namespaces: Iterable<string>): string | undefined {
  const { problems, destinationType, destinationVault, suspects } = spec;
  if (problems.length > 0) return undefined;
  if (destinationType === 'vault')
    return `writes ${vaultPlace(destinationVault)} if it differs; this command does not read Vault`;
  const notes = claims === 0 ? ['no other namespace matches spec.destination.namespaces'] : [];
  notes.push(...misreadPatterns(suspects, namespaces));
  return notes.length === 0 ? undefined : notes.join('; ');
}

function tables({ targets, problems, notes, unchanged, ignored }: PlanReport, all: boolean): string {
  const lines: string[] = problems.map(({ rule, problem }) => `${rule}: ${problem}`);
  lines.push(...notes.map(({ rule, note }) => `${rule}: ${note}`));
  if (lines.length > 0) lines.push('');
  if (targets.length === 0) {
    lines.push('No copy would be created, updated or deleted.');
  } else {
    const rows = targets.map(({ action, kind, namespace, name, rule, reason }) => {
      return [action, kind, namespace, name, rule, reason];
    });
    lines.push(...textTable(['ACTION', 'KIND', 'NAMESPACE', 'NAME', 'FOR', 'WHY'], rows), '', summary(targets));
  }
  if (unchanged > 0 && !all) {
    const text = unchanged === 1 ? '1 copy is unchanged' : `${unchanged} copies are unchanged`;
    lines.push(`${text} (--all shows them).`);
  }
  if (ignored > 0) lines.push(`${ignored} ${ignored === 1 ? 'object is' : 'objects are'} not used by Keyferry.`);
  return `${lines.join('\n')}\n`;
}

function summary(targets: readonly PlannedTarget[]): string {
  const counts = new Map<string, number>();
  for (const { action } of targets) counts.set(action, (counts.get(action) ?? 0) + 1);
  return [...counts].map(([action, count]) => `${count} × ${action}`).join(', ');
}
