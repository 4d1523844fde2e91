/**
 * Parses the consent of a namespace: its annotation `keyferry.dev/accept-from`. The annotation lists patterns of other
 * namespaces, whose rules may then copy into this namespace. Tenants have no permission to edit a Namespace, so only
 * administrators can give a consent.
 */
import { ACCEPT_FROM_ANNOTATION, MAX_CONSENT, type Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import type { EventInput } from '../../../kube/event-recorder.ts';
import { ByteCache } from '../../../runtime/maps.ts';
import { type NamePattern, PatternCache, RulePatterns } from '../../../runtime/text/name-patterns.ts';
import { misreadPatterns, suspectPattern } from './selection.ts';

/** The parsed annotation. With a `problem` (a wrong pattern), the namespace accepts no rule of another namespace. */
export type Consent = { readonly patterns: readonly NamePattern[] } | { readonly problem: string };

/** Maximum memory for all parsed consents, bytes. */
const CONSENT_BYTES = 1024 * 1024;
/** Estimated memory of one parsed consent, bytes. The text and the patterns are not included. */
const BYTES_PER_CONSENT = 500;
/** Maximum number of characters of a pattern in a message. */
const MAX_SHOWN = 100;

/** Parses consents. Namespaces with the same text share one cached result. */
export class Consents {
  /** The patterns of a consent match only whole names ('full'). Patterns in rules may also match a part. */
  readonly #patterns = new PatternCache('full');
  readonly #read = new ByteCache<Consent>({ maxBytes: CONSENT_BYTES });

  /** Parses a consent. @param text the value of the annotation; empty: no rule of another namespace is accepted */
  of(text: string): Consent {
    let consent = this.#read.get(text);
    if (consent === undefined) {
      consent = this.#parse(text);
      this.#read.set(text, consent, 2 * text.length + BYTES_PER_CONSENT);
    }
    return consent;
  }

  #parse(text: string): Consent {
    if (text.length > MAX_CONSENT) return { problem: `is longer than ${MAX_CONSENT} characters` };
    if (text.trim() === '') return { patterns: [] };
    const rulePatterns = new RulePatterns(this.#patterns);
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

  /** What is wrong with a consent, or looks so; `undefined`: nothing. @param namespaces all names */
  mistakeIn(text: string, namespaces: Iterable<string>): Pick<EventInput, 'reason' | 'message'> | undefined {
    const field = `annotation ${ACCEPT_FROM_ANNOTATION}`;
    const consent = this.of(text);
    if ('problem' in consent) {
      const message = `${field} ${consent.problem}; no rule of another namespace copies into this namespace`;
      return { reason: 'InvalidConsent', message };
    }
    const items = text.split(',').map((item) => item.trim());
    const suspects = consent.patterns.flatMap(
      (pattern, index) => suspectPattern(field, items[index] ?? '', pattern) ?? [],
    );
    const misread = misreadPatterns(suspects, namespaces);
    return misread.length === 0 ? undefined : { reason: 'MisreadPattern', message: misread.join('; ') };
  }
}

/** Records one Warning event on each Namespace whose consent has a mistake. */
export class ConsentWatch {
  readonly #namespaces: Namespaces;
  readonly #consents: Consents;
  readonly #record: (event: EventInput) => void;
  /** The last report on each namespace whose consent has a mistake, so that the same report is not recorded twice. */
  readonly #reported = new Map<string, string>();

  constructor(namespaces: Namespaces, consents: Consents, record: (event: EventInput) => void) {
    this.#namespaces = namespaces;
    this.#consents = consents;
    this.#record = record;
  }

  /** Begins to report mistakes. Only the leader may call this, so that users see each mistake once. */
  start(): void {
    for (const name of this.#namespaces.names()) this.#check(name);
    this.#namespaces.onChange((name) => this.#check(name));
  }

  #check(name: string): void {
    const uid = this.#namespaces.uidOf(name);
    const text = this.#namespaces.factsOf(name)?.acceptFrom;
    const mistake = text === undefined ? undefined : this.#consents.mistakeIn(text, this.#namespaces.names());
    if (uid === undefined || mistake === undefined) {
      this.#reported.delete(name);
      return;
    }
    const report = `${uid} ${mistake.message}`;
    if (this.#reported.get(name) === report) return;
    this.#reported.set(name, report);
    const subject = { apiVersion: 'v1', kind: 'Namespace', name, uid };
    this.#record({ ...mistake, subject, type: 'Warning' });
  }
}
