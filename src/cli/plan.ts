/** `keyferry plan`: the changes that `kubectl apply` of manifests would cause on this cluster. Writes nothing. */
import { stringify } from 'yaml';
import { MIRRORS_GROUP, SECRET_MIRROR_KIND } from '../controllers/mirrors/api.ts';
import { NOT_INSTALLED } from '../controllers/mirrors/crd-diagnosis.ts';
import { misreadPatterns } from '../controllers/mirrors/misread-patterns.ts';
import { mirrorRule } from '../controllers/mirrors/mirror-store.ts';
import { effectiveSpec, type EffectiveSpec } from '../controllers/mirrors/spec.ts';
import { parseResourceKey } from '../copy/model/keys.ts';
import type { KubeApi } from '../kube/api.ts';
import type { PlanOptions } from './actions.ts';
import { EXIT_LOSS_OR_REFUSAL, EXIT_DONE } from './exit-codes.ts';
import { Snapshot } from './snapshot/snapshot.ts';
import { reachNotes, requireReach } from './snapshot/reach-notes.ts';
import { readManifests } from './plan/files.ts';
import { changesBy, type Given, givenOf } from './plan/changes.ts';
import {
  hasLossOrRefusal,
  type PlannedNote,
  type PlannedProblem,
  type PlannedTarget,
  type PlanReport,
} from './plan/report.ts';
import { type GivenKeys, keysOf, rowsOf, affectedBy } from './plan/rows.ts';
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
 * @throws ManifestError naming file, document and field, and the errors of `api.request`
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
  const snapshot = await Snapshot.at({ api, regexMode, replicator, changes, now, signal });
  requireReach(snapshot.inventory, ['Namespace', 'SecretMirror', 'Secret']);
  const named = keysOf(api.cluster, given);
  const affected = affectedBy(snapshot, named);
  const rows = await rowsOf(snapshot, affected);
  const changed = rows.filter(({ isChange }) => isChange).map(({ row }) => row);
  const problems = given.flatMap((one) => problemsOf(snapshot, one));
  const lacksApi = snapshot.inventory.reach(SECRET_MIRROR_KIND).extent === 'not installed';
  const unused = [...named.objects].filter((key) => {
    return parseResourceKey(key).kind === 'ConfigMap' && !affected.used.has(key) && !affected.targets.has(key);
  });
  const report: PlanReport = {
    apiVersion: 'keyferry.dev/v1',
    kind: 'Plan',
    targets: options.all ? rows.map(({ row }) => row) : changed,
    problems,
    notes: [
      ...(lacksApi && named.mirrors.size > 0 ? [{ rule: 'cluster', note: NOT_INSTALLED }] : []),
      ...reachNotes(snapshot.inventory).map((note) => ({ rule: 'rights', note })),
      ...notesOn(snapshot, named),
    ],
    unchanged: rows.length - changed.length,
    ignored: manifests.length - given.length + unused.length,
  };
  const code = hasLossOrRefusal({ targets: changed, problems }) ? EXIT_LOSS_OR_REFUSAL : EXIT_DONE;
  if (options.output === 'table') return { text: tables(report, options.all), code };
  return { text: options.output === 'json' ? `${JSON.stringify(report, undefined, 2)}\n` : stringify(report), code };
}

/** Why the server or Keyferry would refuse a manifest. */
function problemsOf(snapshot: Snapshot, { manifest, kind, content, namespace }: Given): PlannedProblem[] {
  const { name } = manifest.metadata;
  const rule = `${kind} ${namespace}/${name}`;
  const problems: PlannedProblem[] = [];
  if (
    kind !== 'Namespace' &&
    snapshot.inventory.isWhole('Namespace') &&
    !snapshot.inventory.namespaces.has(namespace)
  ) {
    problems.push({ rule, problem: `namespace ${namespace} does not exist` });
  }
  if (content === undefined) {
    if (manifest.kind === UNCONVERTED) {
      return [...problems, { rule, problem: 'apiVersion v1alpha1 is not converted: use v1alpha2' }];
    }
    const mirror = snapshot.inventory.mirrors.get(mirrorRule(namespace, name));
    const refusal = snapshot.mirrorReconciler.refusalOf(mirrorRule(namespace, name));
    if (refusal !== undefined) return [...problems, { rule, problem: refusal }];
    const found = mirror === undefined ? [] : effectiveSpec(mirror, snapshot.patterns).problems;
    return [...problems, ...found.map((problem) => ({ rule, problem }))];
  }
  const key = snapshot.key(content, namespace, name);
  const observed = snapshot.inventory.objects.get(key);
  if (snapshot.replicator.ruleOf(key) === undefined || observed === undefined) return problems;
  const replication = snapshot.replicationRuleOf(key, observed);
  return replication?.kind === 'broken' ? [...problems, { rule, problem: replication.refusal.message }] : problems;
}

/** Notes on the mirrors in the manifests, and on mirrors whose source is in them. */
function notesOn(snapshot: Snapshot, named: GivenKeys): PlannedNote[] {
  const notes: PlannedNote[] = [];
  for (const [rule, mirror] of snapshot.inventory.mirrors.all()) {
    const evaluation = snapshot.rules.get(rule);
    if (evaluation === undefined) continue;
    if (!named.mirrors.has(rule) && !evaluation.sources.some((source) => named.objects.has(source))) continue;
    const note = noteOn(
      effectiveSpec(mirror, snapshot.patterns),
      evaluation.claims.length,
      snapshot.inventory.namespaces.names(),
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
