/**
 * `keyferry plan` shows what `kubectl apply` of manifests would change in this cluster; without manifests, what a start of
 * the operator would. Writes nothing.
 */
import type { PlanReport } from '../../scripts/reports/schemas.ts';
import { KINDS } from './snapshot/inventory.ts';
import { placeOf, titleOf } from './snapshot/places.ts';
import type { Snapshot } from './snapshot/snapshot.ts';
import { parseResourceKey, type ResourceKey } from '../copy/model/keys.ts';
import { EXIT_DONE, EXIT_LOSS_OR_REFUSAL, type PlanOptions } from './actions.ts';
import { type CommandContext, type CommandResult, coverageNotes, readSnapshot, whyUnserved } from './output/reading.ts';
import { ruleCollections } from './readers.ts';
import type { Paint } from './output/terminal.ts';
import { copiesText, reportText, TextParts } from './output/text.ts';
import { runningOriginals } from './output/originals.ts';
import { dryRuns } from './plan/dry-run.ts';
import { givenOf } from './plan/given.ts';
import { readManifests } from './plan/manifests.ts';
import {
  addTargets,
  type Affected,
  affectedBy,
  affectedByStart,
  hasLossOrRefusal,
  leftRows,
  type PlannedNote,
  type PlannedProblem,
  type PlannedTarget,
  rowsOf,
} from './plan/rows.ts';

/** @throws ManifestError, which names file, document and field; and the errors of `api.request` */
export async function planFiles(context: CommandContext, options: PlanOptions): Promise<CommandResult> {
  const { api, stdin, paint } = context;
  const { all, config, output, namespace: home = context.namespace } = options;
  const collections = ruleCollections();
  const isStart = options.files.length === 0;
  const manifests = isStart ? [] : await readManifests(options.files, options.recursive, stdin);
  const given = givenOf(manifests, collections, api.cluster, home);
  const { changes, refusals, notes } = await dryRuns(context, given);
  const snapshot = await readSnapshot(context, { config, changes });
  const affected = isStart ? affectedByStart(snapshot) : affectedBy(snapshot, given);
  const rows = await rowsOf(snapshot, affected);
  const left = isStart ? await leftRows(snapshot) : [];
  const running = isStart ? await runningOriginals(context, config.controllers) : [];
  const changed = [...rows.filter(({ isChange }) => isChange).map(({ row }) => row), ...left];
  const concerned = isStart
    ? new Set(Array.from(affected.rules, (rule) => snapshot.objectOf(rule)))
    : given.map(({ key }) => key);
  const problems = [...concerned].flatMap((key) => problemsOf(snapshot, key, refusals.get(key)));
  const lacking = collections.filter(({ kind }) => {
    const isGiven = given.some((one) => one.kind === kind);
    return isGiven && !snapshot.inventory.isInstalled(kind);
  });
  const unused = [...affected.objects].filter((key) => {
    return parseResourceKey(key).kind === 'ConfigMap' && !affected.used.has(key) && !affected.targets.has(key);
  });
  // Notes on manifests whose namespace Keyferry does not serve, or that are not rules in this cluster.
  const elsewhere = given.flatMap(({ key, kind, namespace }) => {
    const unserved = whyUnserved(snapshot, namespace);
    const rule = snapshot.ruleOf(key);
    const isRule = rule !== undefined && snapshot.rules.has(rule);
    const isUnlisted = KINDS.some((one) => one.kind === kind) && !snapshot.inventory.isListed(kind, namespace);
    const other = isUnlisted ? [`not planned: this command did not list ${kind}s (--controllers)`] : [];
    const notes = unserved === undefined ? [...other, ...(isRule ? [] : snapshot.notesOn(key))] : [unserved];
    return notes.map((note) => ({ rule: titleOf(placeOf(key)), note }));
  });
  const report: PlanReport = {
    apiVersion: 'keyferry.dev/v1',
    kind: 'Plan',
    targets: all ? [...rows.map(({ row }) => row), ...left] : changed,
    problems,
    notes: [
      ...lacking.map(({ notInstalled }) => ({ rule: 'cluster', note: notInstalled })),
      ...running.map((note) => ({ rule: 'cluster', note })),
      ...coverageNotes(snapshot).map((note) => ({ rule: 'rights', note })),
      ...notes,
      ...elsewhere,
      ...notesOn(snapshot, affected),
    ],
    unchanged: rows.length + left.length - changed.length,
    ignored: manifests.length - given.length + unused.length,
  };
  // A rule may name a namespace that it cannot copy into, or its patterns select none. Its note then says why.
  const leftOut = Array.from(affected.rules, (rule) => snapshot.rules.get(rule)?.outOfReach?.part ?? 'others');
  const mayCopy = leftOut.every((part) => part === 'others');
  const code = mayCopy && !hasLossOrRefusal({ targets: changed, problems }) ? EXIT_DONE : EXIT_LOSS_OR_REFUSAL;
  const text = output === 'table' ? tables(report, all, elsewhere.length > 0, paint) : reportText(report, output);
  return { text, code };
}

/** Why the server refuses a manifest, or Keyferry would refuse it. */
function problemsOf(snapshot: Snapshot, key: ResourceKey, refusal: string | undefined): PlannedProblem[] {
  const problems = refusal === undefined ? (snapshot.describe(key)?.problems ?? []) : [refusal];
  return problems.map((problem) => ({ rule: titleOf(placeOf(key)), problem }));
}

/** Notes on rules in the manifests, and on rules whose source is in the manifests. */
function notesOn(snapshot: Snapshot, { rules, objects }: Affected): PlannedNote[] {
  const notes: PlannedNote[] = [];
  for (const [rule, { sources, owner }] of snapshot.rules) {
    if (!rules.has(rule) && !sources.some((source) => objects.has(source))) continue;
    for (const note of snapshot.notesOn(snapshot.objectOf(rule))) notes.push({ rule: owner.title, note });
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
  const losing = targets.filter(({ lost }) => lost).length;
  const are = (count: number): string => (count === 1 ? 'is' : 'are');
  parts.lines([
    targets.length === 0 ? nothing : summary(targets),
    ...(losing > 0 ? [`✗ ${copiesText(losing)} would be lost or lose data.`] : []),
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
