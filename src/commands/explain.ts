/** `keyferry explain` says why an object exists or not, which rule owns it, and when it was written. Writes nothing. */
import { KINDS } from './snapshot/inventory.ts';
import { EXIT_DONE, EXIT_FAILED, EXIT_LOSS_OR_REFUSAL, type ExplainOptions } from './actions.ts';
import {
  type CommandContext,
  type CommandResult,
  lacksNamespace,
  coverageNotes,
  readSnapshot,
  settingsOf,
  whyUnserved,
} from './output/reading.ts';
import { reportText } from './output/text.ts';
import { contraryCondition, orphansIn, type RuleStatus, ruleStatuses } from './snapshot/status-report.ts';
import type { TargetPlace } from './snapshot/places.ts';
import type { Snapshot } from './snapshot/snapshot.ts';
import {
  controllerOf,
  isEntryKey,
  namespaceOf,
  parseResourceKey,
  resourceKey,
  type ResourceKey,
  type RuleKey,
} from '../copy/model/keys.ts';
import { withReason } from '../copy/model/cause.ts';
import { COPY_LABEL } from '../copy/model/observed.ts';
import { noNamespace, noOrGoingNamespace } from '../copy/model/reasons.ts';
import type { ObjectMeta } from '../kube/api.ts';
import type { Entry } from '../copy/book/claim-book.ts';
import { rowsOn } from './plan/rows.ts';
import { ruleCollections } from './readers.ts';
import type { Explanation } from '../../scripts/reports/schemas.ts';
import { explanationText, judge, type OtherRule } from './explain/report.ts';
import { isNotReady } from './status/report.ts';
import { lastWriteOf, readStored, type Subject, subjectOf, writersOf } from './explain/subject.ts';
import { type Users, usersOf } from './explain/used-by.ts';

/** @throws UsageError: the kind is unknown or the name invalid; and the errors of `api.request` */
export async function explain(
  context: CommandContext,
  { kind, place, output, config, exitCode }: ExplainOptions,
): Promise<CommandResult> {
  const subject = subjectOf(kind, place, [...KINDS, ...ruleCollections()]);
  const [stored, snapshot, users] = await Promise.all([
    readStored(context.api, subject, context.signal),
    readSnapshot(context, { config }, subject.namespace),
    usersOf(context.api, subject, context.signal),
  ]);
  const explanation = { ...(await explanationOf(snapshot, context, subject, stored)), ...users };
  const tables = (): string => explanationText(explanation, context, settingsOf(snapshot));
  const text = output === 'table' ? tables() : reportText(explanation, output);
  const code = exitCode && isUnready(explanation) ? EXIT_LOSS_OR_REFUSAL : EXIT_DONE;
  return { text, code: explanation.object.exists ? code : EXIT_FAILED };
}

/**
 * Whether the object is a rule that is not ready, a rule claims it and cannot do what it asks for, or it is a copy that
 * no rule wants any more.
 */
function isUnready({ rule, claims, next }: Explanation): boolean {
  const isUndone = claims.some(({ state }) => state !== 'synced' && state !== 'released');
  return isUndone || next?.action === 'delete' || (rule !== null && isNotReady(rule));
}

/** @throws the errors of `api.request` */
async function explanationOf(
  snapshot: Snapshot,
  { api, cluster }: CommandContext,
  { collection, namespace, name }: Subject,
  metadata: ObjectMeta | undefined,
): Promise<Omit<Explanation, keyof Users>> {
  const { inventory, claims } = snapshot;
  const { kind } = collection;
  // `undefined`: objects of this kind are not rules.
  const ruleNames = [...snapshot.readers.values()].find((reader) => reader.collection === collection)?.ruleNames;
  const key = resourceKey(api.cluster, kind, namespace, name);
  const observed = inventory.objects.get(key);
  const entries = claims.book.on(key);
  const marker = observed === undefined ? undefined : claims.ownersOf(observed, key)[0];
  const hidden = marker !== undefined && entries.length === 0 ? whyUnserved(snapshot, namespaceOf(marker)) : undefined;
  const isConcerned = entries.length > 0 || (marker !== undefined && hidden === undefined);
  const others = entries.length > 0 ? [] : sameName(snapshot, key);
  const states = await statesOf(snapshot, key, [...entries.map(({ claim }) => claim.owner.key), ...others, marker]);
  if (isConcerned) await snapshot.decide([key]);
  const row = isConcerned ? rowsOn(snapshot, key).main : undefined;
  const claimed = isConcerned ? [...snapshot.outcomesOn(key)] : [];
  // The claim of the rule that owns the object; else of the rule in the planned row; else the first claim.
  const own = entries.find(({ claim }) => claim.owner.key === marker && claim.mode !== 'fill');
  const entry = own ?? entries.find(({ claim }) => claim.owner.title === row?.rule) ?? entries[0];
  const owner = entry?.claim.owner.key ?? marker;
  // A copy that is pushed and then filled has the content, and so the version, of the claim that fills it.
  const content = entries.find(({ claim }) => claim.mode === 'fill') ?? entry;
  const view = content?.claim.source === undefined ? undefined : inventory.view(content.claim.source);
  const exists = metadata !== undefined;
  const writers = metadata === undefined ? [] : writersOf(metadata);
  const contrary = entries.flatMap(({ claim }) => contraryCondition(snapshot, claim.owner.key) ?? []);
  const unserved = whyUnserved(snapshot, namespace);
  const title = (rule: RuleKey): string => snapshot.titleOf(rule);
  // Keyferry ignores the mark of an original, but the mark names the owner of a leftover.
  const leftoverOf = states.orphan?.verdict === undefined ? undefined : states.orphan.owner;
  const told = {
    owner: owner === undefined ? (leftoverOf ?? null) : title(owner),
    source: owner === undefined ? null : (states.rules.get(owner)?.source ?? sourceText(entry)),
    next: row === undefined ? null : { action: row.action, reason: row.reason },
    others: others.map((rule) => otherRule(snapshot, rule, states.rules.get(rule), key)),
    rule: states.rule ?? null,
    sourceOf: requestersOf(snapshot, key),
  };
  const { verdict, summary } = judge({
    ...told,
    object: { kind, namespace, name },
    exists,
    markedBy: marker === undefined ? leftoverOf : title(marker),
    hidden,
    claims: claimed.map(([{ claim }, outcome]) => ({ rule: title(claim.owner.key), mode: claim.mode, ...outcome })),
    orphanReason: states.orphan?.reason,
    contrary: contrary[0],
    unserved,
    unreadMaker: snapshot.unreadOn(key).find((system) => system === observed?.labels[COPY_LABEL]),
    isLabelled: observed !== undefined && COPY_LABEL in observed.labels,
    isRuleKind: ruleNames !== undefined,
    lacksNamespace: lacksNamespace(snapshot, namespace),
    isPartial: !inventory.isWhole,
    isUnlisted: exists && unserved === undefined && !inventory.isListed(kind, namespace),
    isRefused: others.some((rule) => selects(snapshot, rule, key) === true),
    flags: settingsOf(snapshot),
  });
  const unready = marker === undefined ? undefined : states.rules.get(marker);
  const isUnrelated = verdict === 'unrelated' && unserved === undefined;
  // A rule that is ready, although its copy is missing or is to be deleted.
  const doubted = verdict === 'missing' ? entry?.claim.owner.key : row?.lost === true ? owner : undefined;
  return {
    apiVersion: 'keyferry.dev/v1',
    kind: 'Explanation',
    cluster,
    object: {
      kind,
      namespace,
      name,
      exists,
      created: metadata?.creationTimestamp ?? observed?.created ?? null,
      deleting: metadata?.deletionTimestamp !== undefined || observed?.deleting === true,
    },
    verdict,
    summary,
    ...told,
    claims: claimed.map(([{ claim }, { state, reason, message }]) => {
      const { key: rule } = claim.owner;
      return Object.assign(ruleOf(snapshot, rule, states.rules.get(rule)), { state, reason, message });
    }),
    heldVersion: (observed && content?.claim.shape.heldVersion(observed)) ?? null,
    sourceVersion: view?.state === 'present' ? view.version : null,
    lastWritten: lastWriteOf(writers),
    writers,
    notes: [
      ...notesOf(snapshot, key, exists),
      ...contrary,
      ...(doubted !== undefined && contrary.length === 0 ? conditionNote(snapshot, doubted) : []),
      ...(verdict === 'orphan' && unready?.ready === false && !summary.includes(unready.reason)
        ? [`${unready.namespace}/${unready.name}: ${withReason(unready)}`]
        : []),
      ...(ruleNames !== undefined && isUnrelated ? [`of this kind, Keyferry serves ${ruleNames}`] : []),
    ],
  };
}

function sourceText(entry: Entry | undefined): string | null {
  if (entry?.claim.source === undefined) return null;
  const { kind, namespace, name } = parseResourceKey(entry.claim.source);
  return `${kind.toLowerCase()} ${namespace}/${name}`;
}

/** If a rule is ready although this snapshot contradicts: the operator's limits may differ from those of this command. */
function conditionNote(snapshot: Snapshot, rule: RuleKey): string[] {
  const condition = snapshot.describe(snapshot.objectOf(rule))?.condition;
  if (condition?.status !== 'True') return [];
  return [
    `the condition of ${snapshot.titleOf(rule)} says ${withReason(condition)}; the operator may have other limits than this command: give it the same flags`,
  ];
}

/** Whether the rule selects the object's namespace; `undefined`: the rule makes no objects of this kind and name. */
function selects({ claims }: Snapshot, rule: RuleKey, key: ResourceKey): boolean | undefined {
  return claims.ruleSetOf(rule).selects?.(rule, key)?.();
}

/**
 * The rules that make objects with this kind and name, even if they now select no namespace or may copy into none; and
 * those that are not applied and have such an object or source, because a mistake hides what they make.
 */
function sameName(snapshot: Snapshot, key: ResourceKey): RuleKey[] {
  return [...snapshot.rules].flatMap(([rule, { sources, refusal }]) => {
    const own = [snapshot.objectOf(rule), ...sources];
    if (own.includes(key)) return [];
    const isLike = refusal !== undefined && own.some((one) => isSameName(one, key));
    return isLike || selects(snapshot, rule, key) !== undefined ? rule : [];
  });
}

function isSameName(one: ResourceKey, other: ResourceKey): boolean {
  const [a, b] = [parseResourceKey(one), parseResourceKey(other)];
  return a.kind === b.kind && a.name === b.name;
}

/** States of the concerned rules; also of the subject, if it is a rule or an orphan. */
async function statesOf(snapshot: Snapshot, subject: ResourceKey, concerned: readonly (RuleKey | undefined)[]) {
  const { kind, namespace, name } = parseResourceKey(subject);
  const included = new Set([namespace, ...concerned.flatMap((rule) => (rule === undefined ? [] : namespaceOf(rule)))]);
  const isSubject = (one: TargetPlace): boolean =>
    one.kind === kind && one.namespace === namespace && one.name === name;
  const listed = await ruleStatuses(snapshot, (place) => included.has(place));
  return {
    rules: new Map(listed.flatMap(([key, one]) => (key === undefined ? [] : [[key, one] as const]))),
    rule: listed.find(([, one]) => isSubject(one))?.[1],
    orphan: (await orphansIn(snapshot)).find((one) => isSubject(one)),
  };
}

/** How a rule is shown: controller, title, source and destinations. */
function ruleOf(snapshot: Snapshot, rule: RuleKey, status: RuleStatus | undefined): Omit<OtherRule, 'why'> {
  const { system = controllerOf(rule), source = null, destinations = [] } = status ?? {};
  return { system, rule: snapshot.titleOf(rule), source, destinations };
}

/** Why a rule that makes objects with the same name does not make this object: it may not select the namespace. */
function otherRule(snapshot: Snapshot, rule: RuleKey, status: RuleStatus | undefined, subject: ResourceKey): OtherRule {
  const { namespace } = parseResourceKey(subject);
  const { problems = [], notes = [] } = snapshot.describe(snapshot.objectOf(rule)) ?? {};
  // While the namespace does not exist, it has no labels that show whether the rule would select it.
  const missed = lacksNamespace(snapshot, namespace)
    ? noNamespace(namespace)
    : (whyUnserved(snapshot, namespace) ?? `does not select namespace ${namespace}`);
  const whyNot = snapshot.whyNot(rule, subject);
  // If the rule selects the namespace, its note explains why it does not copy there.
  const isHalted = notes.length > 0 && selects(snapshot, rule, subject) === true;
  const unmade = whyNot === undefined ? [...(isHalted ? [] : [missed]), ...notes] : [whyNot];
  const why = (problems.length > 0 ? problems : unmade).join('; ');
  return { ...ruleOf(snapshot, rule, status), why };
}

/** The rules that request copies of an object, each with the number of its copies that exist. */
function requestersOf(snapshot: Snapshot, key: ResourceKey): Explanation['sourceOf'] {
  const { claims, inventory } = snapshot;
  const counts = new Map<string, number>();
  for (const entry of claims.book.from(key)) {
    const { target, claim } = entry;
    const { kind, namespace } = parseResourceKey(target);
    // If this command has no permission to list the copies, they count as existing.
    const isKnown = !isEntryKey(target) && inventory.isListed(kind, namespace);
    const copies = isKnown && snapshot.copyOf(entry) === undefined ? 0 : 1;
    counts.set(claim.owner.title, (counts.get(claim.owner.title) ?? 0) + copies);
  }
  return Array.from(counts, ([rule, copies]) => ({ rule, copies }));
}

/** Notes on what was not read, on the object, and on the object as a rule. */
function notesOf(snapshot: Snapshot, key: ResourceKey, exists: boolean): string[] {
  const { namespace } = parseResourceKey(key);
  const notes = coverageNotes(snapshot);
  const like = exists ? [] : [...snapshot.inventory.objects.keys()].filter((one) => isSameName(one, key));
  for (const system of new Set(like.flatMap((one) => snapshot.unreadOn(one))))
    notes.push(`objects of this name have annotations that have an effect only with ${system} in --controllers`);
  // Else the summary says it.
  if (exists && lacksNamespace(snapshot, namespace)) notes.push(noOrGoingNamespace(namespace));
  return [...notes, ...(snapshot.describe(key)?.problems ?? []), ...snapshot.notesOn(key)];
}
