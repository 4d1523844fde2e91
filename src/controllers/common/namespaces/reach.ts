/**
 * May a rule in one namespace copy into another one? The one answer for all controllers and commands. Which namespaces
 * a rule selects: `selection.ts`.
 *
 * - An administrator limits the namespaces that rules copy from and into, and excludes some for all rules
 *   (`ReachLimits`).
 * - A consent (`consent.ts`) names the namespaces whose rules are accepted. Without one, all are accepted, or none with
 *   `--require-consent`.
 * - A rule needs no consent for its own namespace.
 *
 * A target out of reach has no claim. So when a limit or a consent changes, copies go or stay by the policy of the
 * rule, as if its author had narrowed its list.
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
  /** Namespaces without the annotation `keyferry.dev/accept-from` accept no rule of other namespaces. */
  readonly requireConsent?: boolean | undefined;
}

/** Changes of namespaces, by their names. */
export type Changes = ReadonlyMap<string, { readonly changed: NamespaceChange }>;

/** Stands for a change that concerns every rule which selects the namespace by name. No label has this key. */
const ANYTHING = '';

export class Reach {
  readonly #limits: ReachLimits;
  readonly consents = new Consents();
  /** Keys of the labels that the limits read. */
  readonly labelKeys: readonly string[];

  constructor(limits: ReachLimits = {}) {
    this.#limits = limits;
    const { sources, destinations, excluded } = limits;
    this.labelKeys = [sources, destinations, excluded].flatMap((filter) => filter?.keys ?? []);
  }

  /**
   * The rules that changes of namespaces concern. A changed label: the rules that select the namespace's name and read
   * the label. Existence, consent, or a label that a limit reads: all rules that select the name. One step for each
   * rule and namespace.
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
    // A limit of sources may read the labels of the rule's own namespace: they decide whether it may copy at all.
    const home = this.labelKeys.length > 0 ? namespaceOf(rule) : undefined;
    for (const what of [ANYTHING, ...(selection.labels?.keys ?? [])]) {
      for (const namespace of namespaces.get(what)) {
        if (namespace === home || selects(selection, namespace)) return true;
        yield;
      }
    }
    return false;
  }

  /** Why no rule may copy from a namespace; `undefined`: rules may. */
  fromRefusal(namespace: string, facts: NamespaceFacts | undefined): Cause | undefined {
    const { sources } = this.#limits;
    if (sources === undefined || sources.has(namespace, facts?.labels ?? {})) return undefined;
    return refusalCause('source', namespace, `namespace ${namespace}`);
  }

  /**
   * Why a rule may not copy into a namespace; `undefined`: it may.
   * @param home namespace of the rule
   * @param facts of `namespace`; `undefined`: as if it had no labels and no consent
   */
  toRefusal(home: string, namespace: string, facts: NamespaceFacts | undefined): Cause | undefined {
    const refusal = this.#refusalTo(home, namespace, facts);
    return refusal && refusalCause(refusal, home, `namespace ${namespace}`);
  }

  /**
   * The existing namespaces that a rule selects and may copy into. One step for each.
   * @param leftOut gets the selected namespaces that the rule may not copy into
   * @param own the namespace of the source, where a copy would have the place of the source: it is skipped
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

/** The reach of all rules under this configuration. */
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

/** Maximum number of names whose match is remembered. */
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
