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
import type { RunResult } from '../../runtime/keyed-queue-options.ts';
import { SingleFlight } from '../../runtime/single-flight.ts';
import type { Claim, Owner } from '../../copy/claim.ts';
import type { Entry } from '../../copy/claim-book.ts';
import { type HolderKey, holderKey, parseHolderKey, type RuleKey } from '../../copy/keys.ts';
import type { Kind } from '../../copy/kind.ts';
import type { Namespaces } from '../../copy/namespaces.ts';
import { observe, type Observed } from '../../copy/observed.ts';
import type { EngineView, Evaluation, RuleNews, RuleState, RuleSystem } from '../../copy/system.ts';
import { NamespaceInterest } from './namespace-interest.ts';
import type { Place } from './permission.ts';
import { PullShape } from './pull-shape.ts';
import { LeaveShape, PushShape } from './push-shape.ts';
import { remarksOn, type ReplicatorEvent } from './report.ts';
import { isRule, pushedBy, readRule, type RuleSettings, ruleTitle, ruleVersion, unknownOn } from './rule.ts';
import type { Targets } from './targets.ts';

export const REPLICATOR_SYSTEM = 'replicator';

/** A version that no evaluation has. */
const NOT_EVALUATED = '';

/** The object that a rule is. */
export interface RuleObject extends Place {
  readonly kind: Kind;
  readonly uid: string;
}

export interface ReplicatorSystemOptions {
  readonly api: KubeApi;
  readonly settings: RuleSettings;
  readonly kinds: readonly Kind[];
  readonly namespaces: Namespaces;
  /** What is known of an object. */
  readonly observed: (kind: Kind, namespace: string, name: string) => Observed | undefined;
  readonly recordEvent: (subject: RuleObject, event: ReplicatorEvent) => void;
}

export class ReplicatorSystem implements RuleSystem {
  readonly name = REPLICATOR_SYSTEM;
  readonly #options: ReplicatorSystemOptions;
  readonly #kinds: ReadonlyMap<string, Kind>;
  readonly #lookUps = new SingleFlight<RuleState>();
  readonly #interest = new NamespaceInterest();
  /** What was last said of a rule's refusals, so that it is said once. */
  readonly #said = new Map<RuleKey, string>();
  /** Rules that cannot be understood as they are. */
  readonly #broken = new Set<RuleKey>();
  /** Rules that were last evaluated before a namespace came or went that concerns them. */
  readonly #outdated = new Set<RuleKey>();
  /** One shape a source: it remembers what it has read. */
  readonly #shapes = new Map<RuleKey, PushShape>();

  constructor(options: ReplicatorSystemOptions) {
    this.#options = options;
    this.#kinds = new Map(options.kinds.map((kind) => [kind.kind, kind]));
  }

  /** The rules that a namespace may concern. */
  rulesFor(namespace: string): ReadonlySet<RuleKey> {
    return this.#interest.rulesFor(namespace);
  }

  /**
   * A namespace that concerns the rule has come or gone. Until the rule is evaluated again its claims do not say what it does not want:
   * what stands in a new namespace already (a backup that was restored) may be one of its copies.
   */
  outdated(rule: RuleKey): void {
    this.#outdated.add(rule);
  }

  forgetNamespace(namespace: string): void {
    this.#interest.forgetNamespace(namespace);
    // Patterns of permissions belong to no rule.
    this.#options.settings.patterns.forgetNamespace(namespace);
  }

  /** The rule that an object is; `undefined` if the replicator does not run for its kind. */
  ruleOf(object: HolderKey): RuleKey | undefined {
    const { kind, namespace, name } = parseHolderKey(object);
    return this.#kinds.has(kind) ? ruleKey(kind, { namespace, name }) : undefined;
  }

  /** What says whether a rule has to be looked at again; `undefined`: the object is no rule. */
  versionOf({ uid, annotations }: Observed): string | undefined {
    const { settings } = this.#options;
    return isRule(settings, annotations) ? ruleVersion(settings, uid, annotations) : undefined;
  }

  /** Whether the claims of a rule are on what it has made, so that they change with it. */
  isBroken(rule: RuleKey): boolean {
    return this.#broken.has(rule);
  }

  evaluate(rule: RuleKey, view: EngineView): Evaluation | undefined {
    const { settings, observed: lookIn, api } = this.#options;
    this.#outdated.delete(rule);
    const { kind, place } = this.#parse(rule);
    const observed = lookIn(kind, place.namespace, place.name);
    const version = observed && this.versionOf(observed);
    if (observed === undefined || version === undefined) {
      this.#interest.set(rule, undefined);
      this.#shapes.delete(rule);
      this.#broken.delete(rule);
      return undefined;
    }
    const owner: Owner = {
      key: rule,
      title: ruleTitle(kind.kind, place),
      rank: `${observed.created} ${observed.uid}`,
    };
    const self = holderKey(api.cluster, kind.kind, place.namespace, place.name);
    const asked = readRule(settings, place, observed.annotations);
    this.#interest.set(rule, asked?.kind === 'push' ? asked.targets : undefined);
    if (asked?.kind === 'broken') this.#broken.add(rule);
    else this.#broken.delete(rule);
    const nothing = { owner, version, claims: [], sources: [] };
    switch (asked?.kind) {
      case undefined:
        return nothing;
      case 'broken': {
        const shape = new LeaveShape(asked.refusal.reason, asked.refusal.message);
        const claims = Array.from(view.ownedBy(rule), (target): Claim => ({
          owner,
          target,
          mode: 'own',
          source: undefined,
          shape,
        }));
        return { ...nothing, claims };
      }
      case 'push': {
        const shape = this.#shapeOf(rule, place);
        const claims: Claim[] = [];
        for (const target of this.#targets(kind, asked.targets)) {
          if (target !== self) claims.push({ owner, target, mode: 'own', source: self, shape });
        }
        return { ...nothing, claims };
      }
      case 'pull': {
        const [namespace = '', name = ''] = asked.from.split('/');
        const source = holderKey(api.cluster, kind.kind, namespace, name);
        const shape = new PullShape(settings, { ...place, kind: kind.kind }, { namespace, name });
        return { ...nothing, claims: [{ owner, target: self, mode: 'fill', source, shape }], sources: [source] };
      }
      default:
        return asked satisfies never;
    }
  }

  ownerOf({ annotations }: Observed, target: HolderKey): RuleKey | undefined {
    const { names } = this.#options.settings;
    if (!(names.by in annotations)) return undefined;
    const { cluster, kind, namespace, name } = parseHolderKey(target);
    if (!this.#kinds.has(kind) || cluster !== this.#options.api.cluster) return undefined;
    const mark = pushedBy(names, { namespace, name }, annotations);
    return mark === undefined ? undefined : `${REPLICATOR_SYSTEM}:${kind}/${mark}`;
  }

  async lookUp(rule: RuleKey, signal: AbortSignal): Promise<RuleState> {
    return await this.#lookUps.run(rule, async (signal) => await this.#lookUp(rule, signal), signal);
  }

  async #lookUp(rule: RuleKey, signal: AbortSignal): Promise<RuleState> {
    const { kind, place } = this.#parse(rule);
    const path = `${kind.groupPath}/namespaces/${place.namespace}/${kind.plural}/${place.name}`;
    try {
      const { body } = await this.#options.api.request({ method: 'GET', path, accept: METADATA_ONLY, signal });
      const object = parseJson(body, `the answer to GET ${path}`) as KubeObject;
      const version = this.versionOf(observe(object.metadata));
      if (version === undefined) return { state: 'gone' };
      return { state: 'there', version: this.#outdated.has(rule) ? NOT_EVALUATED : version };
    } catch (error) {
      if (isObjectGone(error, place.name)) return { state: 'gone' };
      throw error;
    }
  }

  dispose(rule: RuleKey, observed: Observed, ruleThere: boolean): 'delete' | 'keep' {
    const { settings, observed: lookIn } = this.#options;
    if (unknownOn(settings, 'the target', observed.annotations) !== undefined) return 'keep';
    if (!ruleThere) return 'delete';
    const { kind, place } = this.#parse(rule);
    const source = lookIn(kind, place.namespace, place.name);
    const broken = source !== undefined && readRule(settings, place, source.annotations)?.kind === 'broken';
    return broken ? 'keep' : 'delete';
  }

  // oxlint-disable-next-line typescript/require-await -- the seam is for systems that write a status
  async report(rule: RuleKey, entries: Iterable<Entry>, _news: RuleNews): Promise<RunResult | undefined> {
    const { settings, observed: lookIn, recordEvent } = this.#options;
    const { kind, place } = this.#parse(rule);
    const observed = lookIn(kind, place.namespace, place.name);
    if (observed === undefined || this.versionOf(observed) === undefined) {
      this.#said.delete(rule);
      return undefined;
    }
    const asked = readRule(settings, place, observed.annotations);
    const events = remarksOn(asked?.kind === 'broken' ? asked.refusal : undefined, entries);
    if (events === undefined) return undefined;
    const text = JSON.stringify([observed.uid, events]);
    if (this.#said.get(rule) === text) return undefined;
    if (events.length === 0) this.#said.delete(rule);
    else this.#said.set(rule, text);
    for (const event of events) recordEvent({ kind, ...place, uid: observed.uid }, event);
    return undefined;
  }

  *#targets(kind: Kind, targets: Targets): Iterable<HolderKey> {
    const { namespaces, api } = this.#options;
    for (const { namespace, name } of targets.literals.values()) {
      if (namespaces.has(namespace)) yield holderKey(api.cluster, kind.kind, namespace, name);
    }
    if (targets.patterns.length === 0) return;
    for (const namespace of namespaces.names()) {
      for (const { pattern, name } of targets.patterns) {
        if (pattern.matches(namespace)) yield holderKey(api.cluster, kind.kind, namespace, name);
      }
    }
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
