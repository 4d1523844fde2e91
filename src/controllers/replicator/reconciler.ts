/**
 * The replicator system: annotated objects in, claims out, events back. One system for all kinds; a rule of one kind claims
 * objects of that kind only.
 *
 * A rule is `replicator:<Kind>/<namespace>/<name>`: the object that carries the annotations. Pushing gives `own` claims on the
 * targets, pulling one `fill` claim on the object itself. What is pushed with a `replicate-from` is a rule itself.
 *
 * A rule that cannot be understood claims what it has made, and wishes for it that it be left alone: nothing is ever deleted or
 * cleared because of a mistake in an annotation.
 */
import { type KubeApi, type KubeObject, METADATA_ONLY } from '../../kube/api.ts';
import { isObjectGone } from '../../kube/errors.ts';
import { parseJson } from '../../kube/json.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import { SingleFlight } from '../../runtime/single-flight.ts';
import type { Claim, Owner } from '../../copy/model/claim.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import { type ResourceKey, resourceKey, parseResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import type { Kind } from '../../copy/model/kind.ts';
import type { Namespaces } from '../../copy/cluster/namespaces.ts';
import { observe, type Observed } from '../../copy/model/observed.ts';
import type { EngineView, Evaluation, RuleNews, RuleState, RuleReconciler } from '../../copy/rule-reconciler.ts';
import { NamespaceSet } from '../common/namespace-set.ts';
import { TargetLedger } from '../common/target-ledger.ts';
import type { Steps } from '../../runtime/slices.ts';
import { illFormed, isName, listItems, type Refusal } from './annotations.ts';
import { LEAST_PATTERN_SIZE, MAX_PATTERN_SIZE } from '../common/namespace-patterns.ts';
import { NamespaceInterest } from './namespace-interest.ts';
import type { Place } from './permission.ts';
import { PullShape } from './pull-shape.ts';
import { leavingClaims } from '../../copy/model/leave-shape.ts';
import { PushShape } from './push-shape.ts';
import { remarksOn, type ReplicatorEvent } from './report.ts';
import { isRule, pushedBy, readRule, type RuleSettings, ruleTitle, ruleVersion, unknownOn } from './rule.ts';
import { namespacesOf, type Targets, targetsIn } from './targets.ts';

export const REPLICATOR_SYSTEM = 'replicator';

/** Targets that are looked at in one step of an evaluation: less than a millisecond's work. */
const STEP = 100;

/** The most patterns that one annotation can have. */
const MAX_PATTERNS = MAX_PATTERN_SIZE / LEAST_PATTERN_SIZE;

const NO_NAMES: ReadonlySet<string> = new Set();

/** A version that no evaluation has. */
const NOT_EVALUATED = '';

/** The object that a rule is. */
export interface RuleObject extends Place {
  readonly kind: Kind;
  readonly uid: string;
}

export interface ReplicatorReconcilerOptions {
  readonly api: KubeApi;
  readonly settings: RuleSettings;
  readonly kinds: readonly Kind[];
  readonly namespaces: Namespaces;
  /** What is known of an object. */
  readonly observed: (kind: Kind, namespace: string, name: string) => Observed | undefined;
  readonly recordEvent: (subject: RuleObject, event: ReplicatorEvent) => void;
  /** A rule may find more or less room for its targets than when it was last evaluated. */
  readonly onRoom?: (rule: RuleKey) => void;
  /** Some rules have not been told yet of a namespace that came or went. */
  readonly isNamespaceNews?: () => boolean;
}

export class ReplicatorReconciler implements RuleReconciler {
  readonly name = REPLICATOR_SYSTEM;
  readonly #options: ReplicatorReconcilerOptions;
  readonly #kinds: ReadonlyMap<string, Kind>;
  readonly #liveGets = new SingleFlight<RuleState>();
  readonly #interest = new NamespaceInterest();
  /** What was last said of a rule's refusals, so that it is said once. */
  readonly #said = new Map<RuleKey, string>();
  /** Why rules are not carried out as they are: they cannot be understood, or ask for too much. */
  readonly #refusals = new Map<RuleKey, Refusal>();
  readonly #ledger: TargetLedger;
  /** Rules that were last evaluated before a namespace came or went that concerns them. */
  readonly #outdated = new Set<RuleKey>();
  /** One shape a source: it remembers what it has read. */
  readonly #shapes = new Map<RuleKey, PushShape>();

  constructor(options: ReplicatorReconcilerOptions) {
    this.#options = options;
    this.#kinds = new Map(options.kinds.map((kind) => [kind.kind, kind]));
    this.#ledger = new TargetLedger({
      namespaces: () => options.namespaces.size,
      onChange: (rule) => options.onRoom?.(rule),
    });
  }

  /** The rules that a namespace may concern. */
  rulesFor(namespace: string): Steps<ReadonlySet<RuleKey>> {
    return this.#interest.rulesFor(namespace);
  }

  /**
   * A namespace that concerns the rule has come or gone. Until the rule is evaluated again its claims do not say what it does not want:
   * what stands in a new namespace already (a backup that was restored) may be one of its copies.
   */
  outdated(rule: RuleKey): void {
    this.#outdated.add(rule);
  }

  /** There are more or fewer namespaces, and so is what the rules of one may ask for. */
  recount(): void {
    this.#ledger.recount();
  }

  forgetNamespace(namespace: string): void {
    this.#options.settings.patterns.forgetNamespace(namespace);
  }

  /** The rule that an object is; `undefined` if the replicator does not run for its kind. */
  ruleOf(object: ResourceKey): RuleKey | undefined {
    const { kind, namespace, name } = parseResourceKey(object);
    return this.#kinds.has(kind) ? ruleKey(kind, { namespace, name }) : undefined;
  }

  /** What says whether a rule has to be looked at again; `undefined`: the object is no rule. */
  versionOf({ uid, annotations }: Observed): string | undefined {
    const { settings } = this.#options;
    return isRule(settings, annotations) ? ruleVersion(settings, uid, annotations) : undefined;
  }

  /** Whether the claims of a rule are on what it has made, so that they change with it. */
  isBroken(rule: RuleKey): boolean {
    return this.#refusals.has(rule);
  }

  /** Why the rule is not carried out, as of its last evaluation. */
  refusalOf(rule: RuleKey): Refusal | undefined {
    return this.#refusals.get(rule);
  }

  *warmUp(rule: RuleKey): Steps<void> {
    const { settings, observed: lookIn } = this.#options;
    const { kind, place } = this.#parse(rule);
    const annotations = lookIn(kind, place.namespace, place.name)?.annotations ?? {};
    const { to, toNamespaces, allowedNamespaces } = settings.names;
    let tried = 0;
    for (const name of [to, toNamespaces, allowedNamespaces]) {
      for (const item of listItems(annotations[name] ?? '')) {
        const [pattern = ''] = item.split('/');
        if (isName(pattern)) continue;
        settings.patterns.get(pattern);
        // More of them are refused.
        tried += 1;
        if (tried > MAX_PATTERNS) return;
        yield;
      }
    }
  }

  *evaluate(rule: RuleKey, view: EngineView): Steps<Evaluation | undefined> {
    const { settings, observed: lookIn, api } = this.#options;
    this.#outdated.delete(rule);
    const { kind, place } = this.#parse(rule);
    const observed = lookIn(kind, place.namespace, place.name);
    const version = observed && this.versionOf(observed);
    if (observed === undefined || version === undefined) {
      this.#interest.set(rule, []);
      this.#ledger.release(rule);
      this.#shapes.delete(rule);
      this.#refusals.delete(rule);
      return undefined;
    }
    const owner: Owner = {
      key: rule,
      title: ruleTitle(kind.kind, place),
      rank: `${observed.created} ${observed.uid}`,
    };
    const asked = readRule(settings, place, observed.annotations);
    const pushed = asked?.kind === 'push' ? yield* this.#room(rule, place, owner, asked.targets) : undefined;
    if (pushed === undefined) {
      this.#interest.set(rule, []);
      this.#ledger.release(rule);
    }
    const refused = pushed !== undefined && 'reason' in pushed ? pushed : undefined;
    const refusal = asked?.kind === 'broken' ? asked.refusal : refused;
    if (refusal === undefined) this.#refusals.delete(rule);
    else this.#refusals.set(rule, refusal);
    const nothing = { owner, version, claims: [], sources: [] };
    if (refusal !== undefined) {
      return { ...nothing, claims: leavingClaims(owner, view.ownedBy(rule), refusal.reason, refusal.message) };
    }
    if (pushed !== undefined && !('reason' in pushed)) {
      const self = resourceKey(api.cluster, kind.kind, place.namespace, place.name);
      const claim = { owner, mode: 'own', source: self, shape: this.#shapeOf(rule, place) } as const;
      const claims: Claim[] = [];
      for (const path of pushed) {
        const [namespace = '', name = ''] = path.split('/');
        claims.push({ ...claim, target: resourceKey(api.cluster, kind.kind, namespace, name) });
        if (claims.length % STEP === 0) yield;
      }
      return { ...nothing, claims };
    }
    if (asked?.kind !== 'pull') return nothing;
    const [namespace = '', name = ''] = asked.from.split('/');
    const source = resourceKey(api.cluster, kind.kind, namespace, name);
    const shape = new PullShape(settings, { ...place, kind: kind.kind }, { namespace, name });
    const target = resourceKey(api.cluster, kind.kind, place.namespace, place.name);
    return { ...nothing, claims: [{ owner, target, mode: 'fill', source, shape }], sources: [source] };
  }

  /** The targets, if there is room for them. */
  *#room(rule: RuleKey, place: Place, { rank }: Owner, targets: Targets): Steps<ReadonlySet<string> | Refusal> {
    // First: a namespace that comes while they are looked for has them looked for again.
    const interest = namespacesOf(targets);
    this.#interest.set(rule, interest);
    const found = yield* targetsIn(targets, place, this.#options.namespaces);
    if ('reason' in found) {
      this.#ledger.release(rule);
      return found;
    }
    if (this.#ledger.ask(rule, place.namespace, rank, Math.max(found.size, targets.named))) return found;
    // Names are what they are: only what patterns match may change what the rule asks for.
    this.#interest.set(
      rule,
      interest.map(({ patterns }) => new NamespaceSet(NO_NAMES, patterns)),
    );
    const { limit } = this.#ledger;
    const problem = `the objects of namespace ${place.namespace} ask for more than ${limit} targets together, and the older ones come first`;
    return illFormed(...targets.annotation, problem);
  }

  ownerOf({ annotations }: Observed, target: ResourceKey): RuleKey | undefined {
    const { names } = this.#options.settings;
    if (!(names.by in annotations)) return undefined;
    const { cluster, kind, namespace, name } = parseResourceKey(target);
    if (!this.#kinds.has(kind) || cluster !== this.#options.api.cluster) return undefined;
    const mark = pushedBy(names, { namespace, name }, annotations);
    return mark === undefined ? undefined : `${REPLICATOR_SYSTEM}:${kind}/${mark}`;
  }

  async getLive(rule: RuleKey, signal: AbortSignal): Promise<RuleState> {
    return await this.#liveGets.run(rule, async (signal) => await this.#getLive(rule, signal), signal);
  }

  async #getLive(rule: RuleKey, signal: AbortSignal): Promise<RuleState> {
    const { isNamespaceNews } = this.#options;
    const { kind, place } = this.#parse(rule);
    const path = `${kind.groupPath}/namespaces/${place.namespace}/${kind.plural}/${place.name}`;
    try {
      const { body } = await this.#options.api.request({ method: 'GET', path, accept: METADATA_ONLY, signal });
      const object = parseJson(body, `the answer to GET ${path}`) as KubeObject;
      const version = this.versionOf(observe(object.metadata));
      if (version === undefined) return { state: 'gone' };
      return {
        state: 'there',
        version: this.#outdated.has(rule) || isNamespaceNews?.() === true ? NOT_EVALUATED : version,
      };
    } catch (error) {
      if (isObjectGone(error, place.name)) return { state: 'gone' };
      throw error;
    }
  }

  orphanPolicy(rule: RuleKey, observed: Observed, ruleThere: boolean): 'delete' | 'keep' {
    const { settings } = this.#options;
    if (unknownOn(settings, 'the target', observed.annotations) !== undefined) return 'keep';
    return ruleThere && this.#refusals.has(rule) ? 'keep' : 'delete';
  }

  // oxlint-disable-next-line typescript/require-await -- the seam is for systems that write a status
  async updateStatus(rule: RuleKey, entries: Iterable<Entry>, _news: RuleNews): Promise<RunResult | undefined> {
    const { observed: lookIn, recordEvent } = this.#options;
    const { kind, place } = this.#parse(rule);
    const observed = lookIn(kind, place.namespace, place.name);
    if (observed === undefined || this.versionOf(observed) === undefined) {
      this.#said.delete(rule);
      return undefined;
    }
    const events = remarksOn(this.#refusals.get(rule), entries);
    if (events === undefined) return undefined;
    const text = JSON.stringify([observed.uid, events]);
    if (this.#said.get(rule) === text) return undefined;
    if (events.length === 0) this.#said.delete(rule);
    else this.#said.set(rule, text);
    for (const event of events) recordEvent({ kind, ...place, uid: observed.uid }, event);
    return undefined;
  }

  #shapeOf(rule: RuleKey, place: Place): PushShape {
    let shape = this.#shapes.get(rule);
    if (shape === undefined) this.#shapes.set(rule, (shape = new PushShape(this.#options.settings, place)));
    return shape;
  }

  #parse(rule: RuleKey): { readonly kind: Kind; readonly place: Place } {
    const [kindName = '', namespace = '', name = ''] = rule.slice(REPLICATOR_SYSTEM.length + 1).split('/');
    const kind = this.#kinds.get(kindName);
    if (kind === undefined) throw new TypeError(`not the key of a replicator's rule: ${rule}`);
    return { kind, place: { namespace, name } };
  }
}

function ruleKey(kind: string, { namespace, name }: Place): RuleKey {
  return `${REPLICATOR_SYSTEM}:${kind}/${namespace}/${name}`;
}
