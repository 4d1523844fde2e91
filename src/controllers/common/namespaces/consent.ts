/**
 * Parses the consent of a namespace: its annotation `keyferry.dev/accept-from`. The annotation lists patterns of other
 * namespaces, whose rules may then copy into this namespace. Tenants have no permission to edit a Namespace, so only
 * administrators can give a consent.
 */
import { MAX_CONSENT } from '../../../copy/cluster/watch/namespaces.ts';
import { ByteCache } from '../../../runtime/maps.ts';
import { type NamePattern, PatternCache, RulePatterns } from '../../../runtime/text/name-patterns.ts';
import { isMisread } from './selection.ts';

/** The parsed annotation. */
export interface Consent {
  /** None if an item is no pattern: the namespace then accepts no rule of another namespace. */
  readonly patterns: readonly NamePattern[];
  /** Whether an item is no pattern, or looks like a glob: rules that it does not accept are told so. */
  readonly isMistaken: boolean;
}

/** Maximum memory for all parsed consents, bytes. */
const CONSENT_BYTES = 1024 * 1024;
/** Estimated memory of one parsed consent, bytes. The text and the patterns are not included. */
const BYTES_PER_CONSENT = 500;
const BROKEN: Consent = { patterns: [], isMistaken: true };

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
    if (text.length > MAX_CONSENT) return BROKEN;
    if (text.trim() === '') return { patterns: [], isMistaken: false };
    const rulePatterns = new RulePatterns(this.#patterns);
    const patterns: NamePattern[] = [];
    for (const item of text.split(',').map((part) => part.trim())) {
      const pattern = item === '' ? undefined : rulePatterns.add(item);
      if (pattern === undefined || 'error' in pattern) return BROKEN;
      patterns.push(pattern);
    }
    return { patterns, isMistaken: isMisread({ patterns }) };
  }
}
