/**
 * May a rule in one namespace copy into another one? The one answer for all controllers and commands, from two things: the limits that an
 * administrator has set, and the consent of the receiving namespace. What the rule itself selects is its own matter (`selection.ts`).
 *
 * - An administrator limits the namespaces that rules copy from, and copy into, and excludes some for everybody (`ReachLimits`).
 * - A namespace accepts rules of some namespaces by a consent (`consent.ts`). Without one it accepts all, or none with `--require-consent`.
 * - A rule always reaches its own namespace, as far as consent is concerned: the author of the rule is at home there.
 *
 * A target that is not allowed has no claim, so a limit or a consent that is taken back acts as a narrowed list: the copies go or stay by
 * the rule's own policy.
 */
import type { LimitsConfig } from '../../../config/config.ts';
import type { NamespaceLimit } from '../../../config/flags/limit-flags.ts';
import {
  ACCEPT_FROM_ANNOTATION,
  type NamespaceChange,
  type NamespaceFacts,
} from '../../../copy/cluster/watch/namespaces.ts';
import type { Cause } from '../../../copy/model/cause.ts';
import { namespaceOf, type RuleKey } from '../../../copy/model/keys.ts';
import { SetMap } from '../../../runtime/maps.ts';
import type { Steps } from '../../../runtime/queue/slices.ts';
import { type Labels, parseSelector } from '../../../runtime/text/label-selector.ts';
import { WholePatterns } from '../../../runtime/text/whole-patterns.ts';
import { Consents } from './consent.ts';
import { type LeftOut, type Refusal, refusalCause } from './left-out.ts';
import { type NamespaceSelection, selectedIn, selects, type There } from './selection.ts';

/** Some namespaces, by their names or by their labels. */
export interface NamespaceFilter {
  readonly keys: readonly string[];
  has(namespace: string, labels: Labels): boolean;
}

export interface ReachLimits {
  /** The only namespaces that rules may copy from. Default: all. */
  readonly sources?: NamespaceFilter | undefined;
  /** The only namespaces that rules may copy into. Default: all. */
  readonly destinations?: NamespaceFilter | undefined;
  /** Namespaces that no rule copies into. */
  readonly excluded?: NamespaceFilter | undefined;
  /** Namespaces without the annotation accept nobody. */
  readonly requireConsent?: boolean | undefined;
}

/** Changes of namespaces, by their names. */
export type Changes = ReadonlyMap<string, { readonly changed: NamespaceChange }>;

/** Not the key of a label: a change that any rule may read. */
const ANYTHING = '';

export class Reach {
  readonly #limits: ReachLimits;
  readonly consents = new Consents();
  /** The labels of namespaces that the limits read. */
  readonly labelKeys: readonly string[];

  constructor(limits: ReachLimits = {}) {
    this.#limits = limits;
    const { sources, destinations, excluded } = limits;
    this.labelKeys = [sources, destinations, excluded].flatMap((filter) => filter?.keys ?? []);
  }

  /**
   * The rules that changes of namespaces concern: those that select the name of one, and a label that has changed there. Existence, consent and
   * what limits read concern all that select the name. One step for each rule and namespace.
   */
  *concernedBy(changes: Changes, rules: Iterable<readonly [RuleKey, NamespaceSelection]>): Steps<readonly RuleKey[]> {
    const namespaces = new SetMap<string, string>();
    const forAll = [ACCEPT_FROM_ANNOTATION, ...this.labelKeys];
    for (const [namespace, { changed }] of changes) {
      const isForAll = changed === 'existence' || forAll.some((key) => changed.has(key));
      for (const what of isForAll ? [ANYTHING] : changed) namespaces.add(what, namespace);
      yield;
    }
    const found: RuleKey[] = [];
    for (const [rule, selection] of rules) {
      if (yield* this.#isConcerned(rule, selection, namespaces)) found.push(rule);
      yield;
    }
    return found;
  }

  *#isConcerned(
    rule: RuleKey,
    selection: NamespaceSelection,
    namespaces: Pick<SetMap<string, string>, 'get'>,
  ): Steps<boolean> {
    // The labels of its own namespace decide whether the rule may copy at all.
    const home = this.labelKeys.length > 0 ? namespaceOf(rule) : undefined;
    for (const what of [ANYTHING, ...(selection.labels?.keys ?? [])]) {
      for (const namespace of namespaces.get(what)) {
        if (namespace === home || selects(selection, namespace)) return true;
        yield;
      }
    }
    return false;
  }

  /** Why no rule may copy from a namespace; `undefined`: it may. */
  fromRefusal(namespace: string, facts: NamespaceFacts | undefined): Cause | undefined {
    const { sources } = this.#limits;
    if (sources === undefined || sources.has(namespace, facts?.labels ?? {})) return undefined;
    return refusalCause('source', namespace, `namespace ${namespace}`);
  }

  /**
   * Why a rule may not copy into a namespace; `undefined`: it may.
   * @param home namespace of the rule
   * @param facts of `namespace`; `undefined`: it has no labels and no consent
   */
  toRefusal(home: string, namespace: string, facts: NamespaceFacts | undefined): Cause | undefined {
    const refusal = this.#refusalTo(home, namespace, facts);
    return refusal && refusalCause(refusal, home, `namespace ${namespace}`);
  }

  /**
   * The existing namespaces that a rule selects and may copy into. One step for each.
   * @param leftOut gets the others
   * @param own a namespace that is no destination, because the source is the object there
   */
  *reachedBy(selection: NamespaceSelection, there: There, leftOut: LeftOut, own?: string): Steps<readonly string[]> {
    const reached: string[] = [];
    for (const namespace of yield* selectedIn(selection, there)) {
      yield;
      if (namespace === own) continue;
      const refusal = this.#refusalTo(leftOut.home, namespace, there.factsOf(namespace));
      if (refusal === undefined) reached.push(namespace);
      else leftOut.add(refusal, namespace, selection.names.has(namespace));
    }
    leftOut.reached += reached.length;
    return reached;
  }

  #refusalTo(home: string, namespace: string, facts: NamespaceFacts | undefined): Refusal | undefined {
    const { destinations, excluded, requireConsent = false } = this.#limits;
    const { labels = {}, acceptFrom } = facts ?? {};
    if (excluded?.has(namespace, labels) === true) return 'excluded';
    if (destinations?.has(namespace, labels) === false) return 'destination';
    if (namespace === home) return undefined;
    if (acceptFrom === undefined) return requireConsent ? 'absent' : undefined;
    const consent = this.consents.of(acceptFrom);
    if ('problem' in consent) return 'broken';
    return consent.patterns.some((pattern) => pattern.matches(home)) ? undefined : 'consent';
  }
}

/** The reach of all rules with these settings. */
export function reachOf({
  sourceNamespaces,
  destinationNamespaces,
  excludedNamespaces,
  requireConsent,
}: Pick<LimitsConfig, 'sourceNamespaces' | 'destinationNamespaces' | 'excludedNamespaces' | 'requireConsent'>): Reach {
  return new Reach({
    sources: filterOf(sourceNamespaces),
    destinations: filterOf(destinationNamespaces),
    excluded: filterOf(excludedNamespaces),
    requireConsent,
  });
}

function filterOf(limit: NamespaceLimit | undefined): NamespaceFilter | undefined {
  if (limit === undefined) return undefined;
  return 'selector' in limit ? filterByLabels(limit.selector) : filterByName(limit.patterns);
}

/** Names whose match is remembered. */
const MAX_KNOWN = 32_768;

function filterByName(sources: readonly string[]): NamespaceFilter {
  const patterns = new WholePatterns(sources);
  const known = new Map<string, boolean>();
  return {
    keys: [],
    has: (namespace) => {
      let isMatch = known.get(namespace);
      if (isMatch === undefined) {
        if (known.size >= MAX_KNOWN) known.clear();
        known.set(namespace, (isMatch = patterns.matches(namespace)));
      }
      return isMatch;
    },
  };
}

function filterByLabels(text: string): NamespaceFilter {
  const selector = parseSelector(text);
  return { keys: selector.keys, has: (_namespace, labels) => selector.matches(labels) };
}
