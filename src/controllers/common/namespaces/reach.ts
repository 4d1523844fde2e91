/**
 * Decides for all controllers and commands whether a rule in one namespace may copy into another namespace.
 * (`selection.ts` decides which namespaces a rule selects.)
 *
 * - An administrator limits the namespaces that all rules may copy from and into, and can exclude namespaces
 *   (`ReachLimits`).
 * - A namespace with a consent (`consent.ts`) accepts only rules of the namespaces that match it. A namespace without a
 *   consent accepts all rules; with `--require-consent` it accepts none.
 * - A rule needs no consent for its own namespace.
 *
 * A rule makes no claim on a target that it may not copy into. So if a changed limit or consent forbids a copy, the
 * copy is deleted or kept by the rule's orphan policy, as if its author had removed the namespace from the rule.
 */
import type { LimitsConfig } from '../../../config/config.ts';
import type { NamespaceLimit } from '../../../config/flags/limit-flags.ts';
import type { NamespaceFacts } from '../../../copy/cluster/watch/namespaces.ts';
import type { Cause } from '../../../copy/model/cause.ts';
import { pause } from '../../../runtime/pause.ts';
import { type Labels, parseSelector } from '../../../runtime/text/label-selector.ts';
import { WholePatterns } from '../../../runtime/text/whole-patterns.ts';
import { Consents } from './consent.ts';
import { type LeftOut, type Refusal, refusalCause } from './left-out.ts';
import { type NamespaceSelection, selectedIn, type There } from './selection.ts';

/** A set of namespaces, defined by names or by labels. */
export interface NamespaceFilter {
  readonly readsLabels: boolean;
  has(namespace: string, labels: Labels): boolean;
}

export interface ReachLimits {
  /** Rules may copy only from these namespaces. Default: all. */
  readonly sources?: NamespaceFilter | undefined;
  /** Rules may copy only into these namespaces. Default: all. */
  readonly destinations?: NamespaceFilter | undefined;
  /** No rule may copy into these namespaces. Default: none. */
  readonly excluded?: NamespaceFilter | undefined;
  /** If set, a namespace without the annotation `keyferry.dev/accept-from` accepts no rule of another namespace. */
  readonly requireConsent?: boolean | undefined;
}

export class Reach {
  readonly #limits: ReachLimits;
  readonly #consents = new Consents();
  /** Whether a limit goes by labels of namespaces. */
  readonly readsLabels: boolean;

  constructor(limits: ReachLimits = {}) {
    this.#limits = limits;
    const { sources, destinations, excluded } = limits;
    this.readsLabels = [sources, destinations, excluded].some((filter) => filter?.readsLabels === true);
  }

  /** Why no rule may copy from a namespace; `undefined`: rules may copy from it. */
  fromRefusal(namespace: string, facts: NamespaceFacts | undefined): Cause | undefined {
    const { sources } = this.#limits;
    if (sources === undefined || sources.has(namespace, facts?.labels ?? {})) return undefined;
    return refusalCause('source', namespace, `namespace ${namespace}`);
  }

  /**
   * Why a rule must not copy into a namespace; `undefined`: the rule may copy into it.
   * @param home namespace of the rule
   * @param facts labels and consent of `namespace`; `undefined`: it counts as a namespace with neither
   */
  toRefusal(home: string, namespace: string, facts: NamespaceFacts | undefined): Cause | undefined {
    const refusal = this.#refusalTo(home, namespace, facts);
    return refusal && refusalCause(refusal, home, `namespace ${namespace}`);
  }

  /**
   * The existing namespaces that a rule selects and may copy into. Pauses after each namespace.
   * @param leftOut receives the selected namespaces that the rule must not copy into
   * @param own a namespace to skip: that of the source, if a copy there would overwrite the source
   */
  async reachedBy(
    selection: NamespaceSelection,
    there: There,
    leftOut: LeftOut,
    own?: string,
  ): Promise<readonly string[]> {
    const reached: string[] = [];
    for (const namespace of await selectedIn(selection, there)) {
      await pause();
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
    const { patterns, isMistaken } = this.#consents.of(acceptFrom);
    if (patterns.some((pattern) => pattern.matches(home))) return undefined;
    return isMistaken ? 'broken' : 'consent';
  }
}

/** Makes the `Reach` of all rules from the configuration. */
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

/** Maximum number of namespace names for which a filter caches whether its patterns match. */
const MAX_KNOWN = 32_768;

function filterByName(sources: readonly string[]): NamespaceFilter {
  const patterns = new WholePatterns(sources);
  const known = new Map<string, boolean>();
  return {
    readsLabels: false,
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
  return { readsLabels: true, has: (_namespace, labels) => selector.matches(labels) };
}
