/**
 * May a rule in one namespace copy into another one? The one answer for all controllers and commands, from two things: the limits that an
 * administrator has set, and the consent of the receiving namespace. What the rule itself selects is its own matter (`selection.ts`).
 *
 * - An administrator limits the namespaces that rules copy from, and copy into, and excludes some for everybody (`ReachLimits`).
 * - A namespace accepts rules of some namespaces by its annotation `keyferry.dev/accept-from`. Tenants cannot edit a Namespace. Without the
 *   annotation it accepts all, or none with `--require-consent`.
 * - A rule always reaches its own namespace, as far as consent is concerned: who writes the rule is at home there.
 *
 * A target that is not allowed has no claim, so a limit or a consent that is taken back acts as a narrowed list: the copies go or stay by
 * the rule's own policy.
 */
import type { LimitsConfig } from '../../../config/config.ts';
import type { NamespaceLimit } from '../../../config/flags/limit-flags.ts';
import {
  ACCEPT_FROM_ANNOTATION,
  MAX_CONSENT,
  type NamespaceFacts,
  type Namespaces,
} from '../../../copy/cluster/watch/namespaces.ts';
import { type Cause, userCause } from '../../../copy/model/cause.ts';
import type { OutOfReach } from '../../../copy/model/rule-set.ts';
import { ByteCache } from '../../../runtime/byte-cache.ts';
import type { Steps } from '../../../runtime/queue/slices.ts';
import { type Labels, parseSelector } from '../../../runtime/text/label-selector.ts';
import { someOf } from '../../../runtime/text/some-of.ts';
import { WholePatterns } from '../../../runtime/text/whole-patterns.ts';
import { type NamePattern, PatternCache, RulePatterns } from '../../../runtime/text/name-patterns.ts';
import { type NamespaceSelection, selectedIn } from './selection.ts';

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

/** Why a namespace is out of reach: a limit, or no consent. `absent`: it has no annotation. `broken`: its annotation has a mistake. */
type Refusal = 'source' | 'destination' | 'excluded' | 'consent' | 'absent' | 'broken';

/** Memory for consents that were read, bytes. */
const CONSENT_BYTES = 1024 * 1024;
/** Memory of one consent beside its text, bytes. Its patterns are in a cache of their own. */
const BYTES_PER_CONSENT = 500;

export class Reach {
  readonly #limits: ReachLimits;
  /** Of its own, because consent is always for whole names. */
  readonly #patterns = new PatternCache('full');
  readonly #consents = new ByteCache<Consent>({ maxBytes: CONSENT_BYTES });

  /** The labels of namespaces that the limits read. */
  readonly labelKeys: readonly string[];

  constructor(limits: ReachLimits = {}) {
    this.#limits = limits;
    const { sources, destinations, excluded } = limits;
    this.labelKeys = [sources, destinations, excluded].flatMap((filter) => filter?.keys ?? []);
  }

  /** Why no rule may copy from a namespace; `undefined`: it may. */
  fromRefusal(namespace: string, facts: NamespaceFacts | undefined): Cause | undefined {
    const { sources } = this.#limits;
    if (sources === undefined || sources.has(namespace, facts?.labels ?? {})) return undefined;
    return causeOf('source', namespace, `namespace ${namespace}`, 1);
  }

  /**
   * Why a rule may not copy into a namespace; `undefined`: it may.
   * @param home namespace of the rule
   * @param facts of `namespace`; `undefined`: it has no labels and no consent
   */
  toRefusal(home: string, namespace: string, facts: NamespaceFacts | undefined): Cause | undefined {
    const refusal = this.#refusalTo(home, namespace, facts);
    return refusal && causeOf(refusal, home, `namespace ${namespace}`, 1);
  }

  /**
   * The existing namespaces that a rule selects and may copy into. One step for each.
   * @param leftOut gets the others
   * @param own a namespace that is no destination, because the source is the object there
   */
  *reachedBy(
    selection: NamespaceSelection,
    there: Pick<Namespaces, 'has' | 'names' | 'factsOf'>,
    leftOut: LeftOut,
    own?: string,
  ): Steps<readonly string[]> {
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
    const consent = this.#consentIn(acceptFrom);
    if ('problem' in consent) return 'broken';
    return consent.patterns.some((pattern) => pattern.matches(home)) ? undefined : 'consent';
  }

  #consentIn(text: string): Consent {
    let consent = this.#consents.get(text);
    if (consent === undefined) {
      consent = readConsent(text, this.#patterns);
      this.#consents.set(text, consent, 2 * text.length + BYTES_PER_CONSENT);
    }
    return consent;
  }
}

/** The namespaces that a rule selects and must not copy into. Its author learns the names that the rule itself names, and the number of the others. */
export class LeftOut {
  /** Namespace of the rule. */
  readonly home: string;
  /** How many namespaces the rule copies into. */
  reached = 0;
  readonly #groups = new Map<Refusal, { readonly named: string[]; others: number }>();

  constructor(home: string) {
    this.home = home;
  }

  add(refusal: Refusal, namespace: string, isNamed: boolean): void {
    const group = this.#groups.get(refusal) ?? { named: [], others: 0 };
    this.#groups.set(refusal, group);
    if (isNamed) group.named.push(namespace);
    else group.others += 1;
  }

  /** `undefined`: none was left out. */
  get outOfReach(): OutOfReach | undefined {
    const [first] = this.#groups.keys();
    if (first === undefined) return undefined;
    const isNamed = (refusal: Refusal): boolean => this.#groups.get(refusal)?.named.length !== 0;
    const named = this.reached === 0 ? first : [...this.#groups.keys()].find(isNamed);
    return { ...userCause(reasonOf(named ?? first), this.text), part: named === undefined ? 'others' : 'named' };
  }

  /** All of them. */
  get text(): string {
    return Array.from(this.#groups, ([refusal, { named, others }]) => {
      const parts = named.length === 0 ? [] : [`${plural(named.length)} ${someOf(named.toSorted(), NAMED)}`];
      if (others > 0) parts.push(`${others} ${named.length > 0 ? 'other ' : ''}${plural(others)}`);
      return `${reasonOf(refusal)}: ${textOf(refusal, this.home, parts.join(' and '), named.length + others)}`;
    }).join('; ');
  }
}

/** Namespaces of one refusal that are named. */
const NAMED = 5;

function plural(count: number): string {
  return count === 1 ? 'namespace' : 'namespaces';
}

const NOT_PERMITTED = { reason: 'NotPermitted' } as const;
const NOT_ACCEPTED = { reason: 'NotAccepted' } as const;

function reasonOf(refusal: Refusal): 'NotPermitted' | 'NotAccepted' {
  const isLimit = refusal === 'source' || refusal === 'destination' || refusal === 'excluded';
  return (isLimit ? NOT_PERMITTED : NOT_ACCEPTED).reason;
}

function causeOf(refusal: Refusal, home: string, places: string, count: number): Cause {
  return userCause(reasonOf(refusal), textOf(refusal, home, places, count));
}

/** @param places the namespaces that are refused, in words */
function textOf(refusal: Refusal, home: string, places: string, count: number): string {
  if (refusal === 'source') return `copies from ${places} are not permitted by --source-namespaces`;
  if (refusal === 'destination') return `copies into ${places} are not permitted by --destination-namespaces`;
  if (refusal === 'excluded') return `copies into ${places} are not permitted by --excluded-namespaces`;
  const why = {
    consent: `annotation ${ACCEPT_FROM_ANNOTATION}`,
    absent: `no annotation ${ACCEPT_FROM_ANNOTATION}, and --require-consent is on`,
    broken: `a mistake in annotation ${ACCEPT_FROM_ANNOTATION}`,
  }[refusal];
  return `${places} ${count === 1 ? 'does' : 'do'} not accept copies from namespace ${home} (${why})`;
}

/** The consent of a namespace. One pattern with a mistake is enough: then nobody is accepted. */
export type Consent = { readonly patterns: readonly NamePattern[] } | { readonly problem: string };

/** Longest part of a consent in a message. */
const MAX_SHOWN = 100;

/** Reads `keyferry.dev/accept-from`. Empty: nobody. */
export function readConsent(text: string, cache: PatternCache): Consent {
  if (text.length > MAX_CONSENT) return { problem: `is longer than ${MAX_CONSENT} characters` };
  if (text.trim() === '') return { patterns: [] };
  const rulePatterns = new RulePatterns(cache);
  const patterns: NamePattern[] = [];
  for (const item of text.split(',').map((part) => part.trim())) {
    if (item === '') return { problem: 'has an empty pattern beside a comma' };
    const pattern = rulePatterns.add(item);
    if ('error' in pattern) {
      return { problem: `${JSON.stringify(item.slice(0, MAX_SHOWN))} is not a pattern: ${pattern.error}` };
    }
    patterns.push(pattern);
  }
  return { patterns };
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
