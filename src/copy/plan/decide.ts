/**
 * Decides one target: gathers the facts that `plan` needs, until the plan needs no more.
 *
 *   known facts ────plan──▶ decision
 *        ▲            └───▶ need: source, target or owner ──read──▶ plan again
 *        └─────────────────────────────────────────────────────────────┘
 *
 * The operator and the commands (such as `plan`) all decide with this function. Each has its own source of facts: the
 * operator has caches and single reads, a command has lists that it read one time. So a command reports exactly what
 * the operator does. A source of facts may delay reads, to do the reads of many decisions together.
 */
import { ApiError, ConnectionError } from '../../kube/errors.ts';
import { getOrCreate } from '../../runtime/maps.ts';
import { type Claim, isUnderWay, type SourceView } from '../model/claim.ts';
import type { Content, Fingerprint } from '../model/content.ts';
import type { KeySelection } from '../model/key-selection.ts';
import { parseResourceKey, type ResourceKey, type RuleKey } from '../model/keys.ts';
import type { Observed } from '../model/observed.ts';
import type { Claims } from '../book/claims.ts';
import type { OrphanAction } from '../model/rule-set.ts';
import type { Cycles } from './cycles.ts';
import type { Contest, Facts, Need, Plan } from './facts.ts';
import { plan } from './plan.ts';

/** The part of the facts that the caches have about the target itself. */
export type TargetState = Omit<
  Facts,
  Exclude<keyof Contest, 'observed'> | 'target' | 'usedBy' | 'fingerprintOf' | 'orphanAction'
>;

export interface TargetReader {
  state(target: ResourceKey): TargetState;
  /**
   * Reads the target with its content. @returns false if the read shows nothing new
   * @param part the keys of which `Held.part` is the digest
   */
  read(target: ResourceKey, part?: readonly string[]): Promise<boolean>;
}

/** Gives all facts except those about the target itself. */
export interface FactSource {
  /** The claims on targets, and the owners by the marks on them. */
  readonly claims: Pick<Claims, 'book' | 'ownersOf' | 'graceLeft' | 'wanted'>;
  readonly cycles: Pick<Cycles, 'viewsOn'>;
  readonly sources: {
    /** The state of a source, from the caches. */
    view(source: ResourceKey | undefined): SourceView;
    /** The fingerprint of the source's content; `undefined`: the content was not read yet. */
    fingerprint(source: ResourceKey | undefined): Fingerprint | undefined;
    /** Reads the source's content and selects its keys. `undefined`: there is none, or a key is missing. */
    load(source: ResourceKey, signal: AbortSignal, selection?: KeySelection): Promise<unknown>;
  };
  /** Whether the namespace is known. In an unknown namespace, claims on targets may still be missing. */
  readonly hasNamespace: (name: string) => boolean;
  /** Whether to delete a target that its owner does not claim. `later`: the owner's claims are not up to date. */
  readonly orphanActionOf: (
    owner: RuleKey,
    target: ResourceKey,
    observed: Observed,
    signal: AbortSignal,
  ) => Promise<OrphanAction | 'later'>;
  /** Whether a rule may claim the target whose claims are not known yet. Default: none. */
  readonly mayBeWanted?: (target: ResourceKey) => Promise<boolean>;
  /** Wall clock, ms. */
  readonly now: () => number;
}

export interface Decision {
  readonly facts: Facts;
  readonly plan: Exclude<Plan, Need> | Later;
  /** Set if a rule that let the target go could not be asked: its marks stay, and the target is decided again, ms. */
  readonly againMs?: number | undefined;
}

/** The target cannot be decided now. */
export interface Later {
  readonly do: 'later';
  /**
   * `namespace`: the namespace is unknown, or is being deleted. `owner`: the claims of the owner, or of a rule that may
   * want the target, are not up to date.
   * `changed`: a source or target changed while it was read.
   */
  readonly because: 'namespace' | 'owner' | 'changed';
  /** Set if the target is to be deleted or emptied: its source or another rule has so much time to want it, ms. */
  readonly graceMs?: number | undefined;
}

/** Most facts that one decision reads. A plan needs fewer. */
const MAX_ROUNDS = 8;
/** Pause before a rule is asked again about a copy that another rule has, ms: if it changes now, and if its read failed. */
const ASK_CHANGED_MS = 1000;
const ASK_FAILED_MS = 60_000;

/** Decides one target. @throws the errors of the reads */
export async function decide(
  target: ResourceKey,
  source: FactSource,
  reader: TargetReader,
  signal: AbortSignal,
): Promise<Decision> {
  /** What each rule that let the target go says, about one version of the target. Later it may have other marks. */
  let answers: { readonly version: string; readonly actions: Map<RuleKey, OrphanAction> } | undefined;
  let isLookedUp = false;
  let isUnwanted = false;
  let againMs: number | undefined;
  let facts = factsOf(target, source, reader);
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    const decision = plan(facts);
    const isEnd = decision.do === 'delete' || (decision.do === 'update' && decision.claim.mode === 'release');
    if (isEnd && !isUnwanted) {
      // For example, a rule was renamed: its copies stay until the new rule is evaluated and takes them over.
      if ((await source.mayBeWanted?.(target)) === true) return later(facts, 'owner');
      isUnwanted = true;
    } else if (decision.do !== 'need') {
      const lacking = lackOf(decision, facts, source.claims);
      const isKept = lacking === undefined && decision.do !== 'delete' && decision.do !== 'replace';
      // Nothing is decided yet about an object that may exist and was not seen: it may have lost Keyferry's label.
      if (isKept && facts.presence !== 'unknown') source.claims.wanted(target);
      const graceMs = lacking && source.claims.graceLeft(lacking.owner.key, target);
      if ((graceMs ?? 0) > 0) return later(facts, 'changed', graceMs);
      if (graceMs === undefined || lacking?.source === undefined || isLookedUp)
        return { facts, plan: decision, againMs };
      // The source may be back, although the watch has not shown it yet.
      await source.sources.load(lacking.source, signal);
      isLookedUp = true;
    } else if (decision.fact === 'owner') {
      const { leftBy, observed } = facts;
      if (leftBy.length === 0 || observed === undefined) break;
      if (!source.hasNamespace(parseResourceKey(target).namespace)) return later(facts, 'namespace');
      const graceMs = isHeld(facts) ? 0 : Math.max(...leftBy.map((rule) => source.claims.graceLeft(rule, target) ?? 0));
      if (graceMs > 0) return later(facts, 'owner', graceMs);
      const actions = new Map<RuleKey, OrphanAction>();
      // A rule that cannot be asked must not stop the updates by the one that has the copy. Its marks stay for now. If
      // the copy may have keys of others, they would be lost, so it waits.
      const mayGoOn = isHeld(facts) && observed.ownKeys !== undefined;
      againMs = undefined;
      for (const rule of leftBy) {
        try {
          const answer = await source.orphanActionOf(rule, target, observed, signal);
          if (answer === 'later' && !mayGoOn) return later(facts, 'owner');
          if (answer === 'later') againMs ??= ASK_CHANGED_MS;
          actions.set(rule, answer === 'later' ? 'keep' : answer);
        } catch (error) {
          if (!mayGoOn || signal.aborted || !(error instanceof ApiError || error instanceof ConnectionError))
            throw error;
          againMs ??= ASK_FAILED_MS;
          actions.set(rule, 'keep');
        }
      }
      answers = { version: observed.resourceVersion, actions };
    } else if (decision.fact === 'target') {
      if (!(await reader.read(target, decision.part))) break;
    } else {
      const { claim } = decision;
      if (claim.source === undefined || facts.viewOf(claim).state !== 'present') break;
      const { selection } = claim;
      const content = await source.sources.load(claim.source, signal, selection);
      // With a selection, `undefined` may mean that a key is missing. The next plan then has this fact.
      if (content === undefined && selection === undefined) break;
    }
    facts = factsOf(target, source, reader);
    if (answers !== undefined && answers.version === facts.observed?.resourceVersion)
      facts = { ...facts, orphanAction: orphanActionFor(facts, answers.actions) };
  }
  return later(facts, 'changed');
}

/**
 * Loads the content that a plan writes. `gone`: the source cannot be read now. `changed`: it has another version than the
 * plan was made from. With this version, it may not allow the copy any more.
 */
export async function plannedContent(
  facts: Facts,
  claim: Claim,
  sources: {
    load(source: ResourceKey, signal: AbortSignal, selection?: KeySelection): Promise<Content | undefined>;
  },
  signal: AbortSignal,
): Promise<Content | 'gone' | 'changed'> {
  const { source, selection } = claim;
  const view = facts.viewOf(claim);
  if (source === undefined || view.state !== 'present') return 'gone';
  const content = await sources.load(source, signal, selection);
  if (content === undefined) return 'gone';
  return content.version === view.version ? content : 'changed';
}

/** Whether the rule that has the target wants it, so that the target only loses the marks of others. */
function isHeld({ entries, markedBy }: Facts): boolean {
  return entries.some(({ claim }) => claim.mode === 'own' && claim.owner.key === markedBy);
}

/** What becomes of a target that several rules let go: it is deleted if all say so, and kept if one says so. */
function orphanActionFor({ leftBy }: Facts, actions: ReadonlyMap<RuleKey, OrphanAction>): OrphanAction | undefined {
  const all = leftBy.map((rule) => actions.get(rule));
  if (all.length === 0 || all.includes(undefined)) return undefined;
  return all.find((action) => action === 'keep') ?? all.find((action) => action !== 'delete') ?? 'delete';
}

function later(facts: Facts, because: Later['because'], graceMs?: number): Decision {
  return { facts, plan: { do: 'later', because, graceMs } };
}

/**
 * The claim of a plan that empties a target although its source may be back soon; `undefined`: the plan does not. Only
 * a source that exists and that filled the target before empties it at once: if it forbids this now, or if it has no
 * data because its own source is gone. Otherwise the time would show users which objects exist in other namespaces.
 */
function lackOf(plan: Exclude<Plan, Need>, facts: Facts, { book }: Pick<Claims, 'book'>): Claim | undefined {
  if (!('claim' in plan) || plan.claim.mode !== 'fill' || plan.desired.data !== 'minimal') return undefined;
  const { claim, desired } = plan;
  const { source } = claim;
  const view = facts.viewOf(claim);
  const wasFilled = facts.entries.some((entry) => entry.claim === claim && entry.outcome.state === 'synced');
  if (!wasFilled || source === undefined || view.state !== 'present') return claim;
  if (desired.isSourceEmpty !== true) return undefined;
  const isCleared = book.on(source).some(({ claim: { mode }, outcome }) => {
    return mode === 'fill' && outcome.state !== 'synced' && !isUnderWay(outcome);
  });
  return isCleared ? undefined : claim;
}

/** All facts about a target that the caches have. */
export function factsOf(target: ResourceKey, source: FactSource, reader: TargetReader): Facts {
  const { claims, cycles, sources } = source;
  const contest = contestOf(target, source, reader);
  const inCycle = cycles.viewsOn(target);
  const views = new Map<Claim, SourceView>();
  return {
    ...contest,
    target,
    viewOf: (claim) => getOrCreate(views, claim, () => inCycle(claim) ?? contest.viewOf(claim)),
    usedBy: claims.book.userOf(target),
    fingerprintOf: (claim) => fingerprintFor(claim, sources),
    orphanAction: undefined,
  };
}

/** The facts about a target that do not depend on cycles, because these follow from them. @see CyclesOptions.contestOf */
export function contestOf(
  target: ResourceKey,
  { claims, sources, now }: Omit<FactSource, 'cycles'>,
  reader: TargetReader,
): Contest & TargetState {
  const state = reader.state(target);
  const owners = state.observed === undefined ? [] : claims.ownersOf(state.observed, target);
  return {
    ...state,
    entries: claims.book.on(target),
    markedBy: state.unmarked ? state.unmarked.holder : owners[0],
    leftBy: owners.filter((rule) => !claims.book.claims(rule, target)),
    viewOf: (claim) => viewFor(claim, sources),
    now: now(),
  };
}

type KnownSources = Pick<FactSource['sources'], 'view' | 'fingerprint'>;

/** The state of a claim's source for the claim. If the source lacks a key that the claim needs: `failed`. */
function viewFor({ source, selection }: Claim, sources: KnownSources): SourceView {
  const view = sources.view(source);
  if (selection === undefined || view.state !== 'present') return view;
  const missing = selection.known(sources.fingerprint(source))?.missing;
  return missing === undefined ? view : { state: 'failed', ...missing };
}

function fingerprintFor({ source, selection }: Claim, sources: KnownSources): Fingerprint | undefined {
  const whole = sources.fingerprint(source);
  return selection === undefined ? whole : selection.known(whole)?.chosen;
}
