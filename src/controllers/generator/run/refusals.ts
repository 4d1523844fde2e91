/**
 * The pace of tries that fail until a person acts: a policy, a login, or a permission is missing. Thousands of them would cost a good part of a
 * core if each was tried again as often as a few are.
 *
 * All refused rules together are tried `TRIES_PER_SECOND` times a second. Namespaces with refused rules share these tries equally, so that many
 * of one delay no other. A success in a namespace shows that somebody has acted: then its refused rules are tried at once.
 */
import { namespaceOf, type RuleKey } from '../../../copy/model/keys.ts';
import { missingCredential } from '../../../copy/vault/access/login-tokens.ts';
import { isForbidden } from '../../../kube/errors.ts';
import type { Clock } from '../../../runtime/clock.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import { isVaultError } from '../../../vault/errors.ts';

/** A try takes two to five milliseconds of CPU time. */
const TRIES_PER_SECOND = 10;
/** Between two releases of a namespace, ms: its author may refuse and permit without end. */
const RELEASE_MS = 60_000;
/** Longest wait, ms, however many there are: those of one user must not keep another's for hours. Then there are more tries a second. */
const LONGEST_MS = 600_000;

interface Refused {
  readonly rules: Set<RuleKey>;
  /** Monotonic ms. */
  releasedAt: number;
}

export class Refusals {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #usualMs: number;
  readonly #random: () => number;
  readonly #byNamespace = new Map<string, Refused>();

  /** @param usualMs the longest wait of rules that are few */
  constructor(clock: Pick<Clock, 'monotonic'>, usualMs: number, random = Math.random) {
    this.#clock = clock;
    this.#usualMs = usualMs;
    this.#random = random;
  }

  /** A try failed. @returns the wait until the next one, ms; `undefined`: as usual */
  failed(rule: RuleKey, error: unknown): number | undefined {
    if (!isRefusal(error)) {
      this.#remove(rule);
      return undefined;
    }
    const unknown = (): Refused => ({ rules: new Set(), releasedAt: -Infinity });
    const refused = getOrCreate(this.#byNamespace, namespaceOf(rule), unknown);
    refused.rules.add(rule);
    const waitMs = this.#waitMs(refused);
    // Spread, so that rules that came together do not stay together.
    return waitMs > this.#usualMs ? waitMs * (0.5 + this.#random()) : undefined;
  }

  /** A run did not fail. @param hasValues Vault has the values of the rule now @returns the rules to be tried now */
  succeeded(rule: RuleKey, hasValues: boolean): Iterable<RuleKey> {
    const refused = this.#remove(rule);
    if (refused === undefined) return [];
    const now = this.#clock.monotonic();
    if (!hasValues || now < refused.releasedAt + Math.max(RELEASE_MS, this.#waitMs(refused))) return [];
    refused.releasedAt = now;
    return refused.rules;
  }

  /** @returns the refused rules of its namespace; `undefined`: it was not refused */
  #remove(rule: RuleKey): Refused | undefined {
    const namespace = namespaceOf(rule);
    const refused = this.#byNamespace.get(namespace);
    if (refused?.rules.delete(rule) !== true) return undefined;
    if (refused.rules.size === 0) this.#byNamespace.delete(namespace);
    return refused;
  }

  #waitMs({ rules }: Refused): number {
    return Math.min(LONGEST_MS, (rules.size * this.#byNamespace.size * 1000) / TRIES_PER_SECOND);
  }
}

/** Whether a try fails until a person acts. */
function isRefusal(error: unknown): boolean {
  return isForbidden(error) || missingCredential(error) !== undefined || (isVaultError(error) && !error.transient);
}
