/** `keyferry plan` shows what `kubectl apply` of manifests would change in this cluster. Writes nothing. */
import type { PlanReport } from '../../scripts/reports/schemas.ts';
import { KINDS } from '../controllers/common/snapshot/inventory.ts';
import { placeOf, titleOf } from '../controllers/common/snapshot/status-report.ts';
import type { Snapshot } from '../controllers/common/snapshot/snapshot.ts';
import { parseResourceKey } from '../copy/model/keys.ts';
import { EXIT_DONE, EXIT_LOSS_OR_REFUSAL, type PlanOptions } from './actions.ts';
import { BUNDLED_CRDS } from './crds.ts';
import {
  type CommandContext,
  type CommandResult,
  coverageNotes,
  readSnapshot,
  requireCoverage,
  ruleCollections,
  whyUnserved,
} from './output/reading.ts';
import type { Paint } from './output/terminal.ts';
import { copiesText, reportText, TextParts } from './output/text.ts';
import { changesBy, type Given, givenOf } from './plan/changes.ts';
import { readManifests } from './plan/manifests.ts';
import {
  addTargets,
  type Affected,
  affectedBy,
  hasLossOrRefusal,
  type PlannedNote,
  type PlannedProblem,
  type PlannedTarget,
  rowsOf,
} from './plan/rows.ts';
import { type Schemas, schemasIn, unknownFields } from './plan/unknown-fields.ts';

/** @throws ManifestError, which names file, document and field; and the errors of `api.request` */
export async function planFiles(context: CommandContext, options: PlanOptions): Promise<CommandResult> {
  const { api, namespace: home, stdin, paint, now } = context;
  const { all, config, output } = options;
  const collections = await ruleCollections();
  const kinds = new Set([...KINDS, ...collections].map(({ kind }) => kind));
  const manifests = await readManifests(options.files, options.recursive, stdin, kinds);
  const given = givenOf(manifests, collections, api.cluster, home);
  const snapshot = await readSnapshot(context, { config, changes: changesBy(given, now()) });
  const hint =
    config.namespaces.length > 0
      ? ''
      : '; to plan only for the namespaces that you may read, list them with --namespaces';
  requireCoverage(snapshot, hint, new Set(given.flatMap(({ collection }) => collection?.kind ?? [])));
  const affected = affectedBy(snapshot, given);
  const rows = await rowsOf(snapshot, affected);
  const changed = rows.filter(({ isChange }) => isChange).map(({ row }) => row);
  const schemas = schemasIn(BUNDLED_CRDS);
  const problems = given.flatMap((one) => problemsOf(snapshot, one, schemas));
  const lacking = collections.filter(({ kind }) => {
    const isGiven = given.some((one) => one.kind === kind);
    return isGiven && snapshot.inventory.coverage.get(kind)?.extent === 'not installed';
  });
  const unused = [...affected.objects].filter((key) => {
    return parseResourceKey(key).kind === 'ConfigMap' && !affected.used.has(key) && !affected.targets.has(key);
  });
  // Notes on manifests whose namespace Keyferry does not serve, or that are not rules in this cluster.
  const elsewhere = given.flatMap(({ key, namespace }) => {
    const unserved = whyUnserved(snapshot, namespace);
    const notes = unserved === undefined ? snapshot.notesOf(key) : [unserved];
    return notes.map((note) => ({ rule: titleOf(placeOf(key)), note }));
  });
  const report: PlanReport = {
    apiVersion: 'keyferry.dev/v1',
    kind: 'Plan',
    targets: all ? rows.map(({ row }) => row) : changed,
    problems,
    notes: [
      ...lacking.map(({ notInstalled }) => ({ rule: 'cluster', note: notInstalled })),
      ...coverageNotes(snapshot).map((note) => ({ rule: 'rights', note })),
      ...elsewhere,
      ...notesOn(snapshot, affected),
    ],
    unchanged: rows.length - changed.length,
    ignored: manifests.length - given.length + unused.length,
  };
  // A rule may name a namespace that it cannot copy into. Its note then says which limit or consent is missing. A rule
  // that selects nothing loses nothing.
  const leftOut = Array.from(affected.rules, (rule) => snapshot.rules.get(rule)?.outOfReach?.part ?? 'others');
  const mayCopy = leftOut.every((part) => part === 'others' || part === 'none');
  const code = mayCopy && !hasLossOrRefusal({ targets: changed, problems }) ? EXIT_DONE : EXIT_LOSS_OR_REFUSAL;
  const text = output === 'table' ? tables(report, all, elsewhere.length > 0, paint) : reportText(report, output);
  return { text, code };
}

/** Why the server or Keyferry would refuse a manifest. */
function problemsOf(snapshot: Snapshot, given: Given, schemas: Schemas): PlannedProblem[] {
  const { kind, key, namespace, problem, manifest } = given;
  const problems: string[] = [];
  const isThere = whyUnserved(snapshot, namespace) !== undefined || snapshot.inventory.hasNamespace(namespace);
  if (kind !== 'Namespace' && !isThere) {
    problems.push(`namespace ${namespace} does not exist`);
  }
  if (problem === undefined) problems.push(...snapshot.problemsOf(key), ...unknownFields(manifest, schemas));
  else problems.push(problem);
  return problems.map((text) => ({ rule: titleOf(placeOf(key)), problem: text }));
}

/** Notes on rules in the manifests, and on rules whose source is in the manifests. */
function notesOn(snapshot: Snapshot, { rules, objects }: Affected): PlannedNote[] {
  const notes: PlannedNote[] = [];
  for (const [rule, { sources, owner }] of snapshot.rules) {
    if (!rules.has(rule) && !sources.some((source) => objects.has(source))) continue;
    const note = snapshot.noteOn(rule);
    if (note !== undefined) notes.push({ rule: owner.title, note });
  }
  return notes;
}

/** @param hasElsewhere whether a note says what changes in another cluster */
function tables(report: PlanReport, all: boolean, hasElsewhere: boolean, paint: Paint): string {
  const { targets, problems, notes, unchanged, ignored } = report;
  const parts = new TextParts(paint);
  parts.lines([
    ...problems.map(({ rule, problem }) => `${rule}: ${problem}`),
    ...notes.map(({ rule, note }) => `${rule}: ${note}`),
  ]);
  addTargets(parts, targets);
  const nothing = `No copy${hasElsewhere ? ' in this cluster' : ''} would be created, updated or deleted.`;
  const are = (count: number): string => (count === 1 ? 'is' : 'are');
  parts.lines([
    targets.length === 0 ? nothing : summary(targets),
    ...(unchanged > 0 && !all ? [`${copiesText(unchanged)} ${are(unchanged)} unchanged (--all shows them).`] : []),
    ...(ignored > 0
      ? [`${ignored} ${ignored === 1 ? 'object' : 'objects'} ${are(ignored)} not used by Keyferry.`]
      : []),
  ]);
  return parts.toString();
}

function summary(targets: readonly PlannedTarget[]): string {
  const counts = new Map<string, number>();
  for (const { action } of targets) counts.set(action, (counts.get(action) ?? 0) + 1);
  return [...counts].map(([action, count]) => `${count} × ${action}`).join(', ');
}
