/**
 * Gives all names in a report other names, which are the same within one report and tell nothing beyond it. Of all other
 * texts only those stay that are known to have no name in them: kinds, states, reasons, times.
 */
import { randomInt } from 'node:crypto';

import type { PageData, PageRule } from '../data.ts';

const LEFT_OUT = '(left out)';
const TIMES: ReadonlySet<string> = new Set(['at', 'since', 'lastSyncTime']);
/** Fields that have one word of the API. A longer text, such as the reason of an orphan, may have names in it. */
const WORDS: ReadonlySet<string> = new Set(['system', 'kind', 'state', 'reason', 'action', 'verdict']);

class Pseudonyms {
  readonly #word: string;
  readonly #known = new Map<string, string>();
  readonly #used = new Set<number>();

  constructor(word: string) {
    this.#word = word;
  }

  /** `name-48151623`: the number tells no order. */
  of(name: string): string {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    let number = 0;
    do number = randomInt(10 ** 8);
    while (this.#used.has(number));
    this.#used.add(number);
    this.#known.set(name, `${this.#word}-${number}`);
    return this.of(name);
  }
}

export function redacted(data: PageData): PageData {
  const [namespaces, names] = [new Pseudonyms('namespace'), new Pseudonyms('name')];
  const text = (field: string, value: string): string => {
    if (value === '' || field === 'message' || field === 'sourceVersion') return '';
    if (field === 'namespace') return namespaces.of(value);
    if (field === 'name' || field === 'id') return names.of(value);
    return TIMES.has(field) || (WORDS.has(field) && /^[A-Za-z-]+$/.test(value)) ? value : LEFT_OUT;
  };
  const walked = <T>(field: string, value: T): T => {
    if (typeof value === 'string') return text(field, value) as T;
    if (typeof value !== 'object' || value === null) return value;
    if (!Array.isArray(value))
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, walked(key, one)])) as T;
    // Lists are sorted by name, and so would tell the order of the names.
    const keyed = value.map((one) => walked(field, one) as unknown).map((one) => [JSON.stringify(one), one] as const);
    return keyed.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one) as T;
  };
  const { advice, ruleNames, notes } = data;
  const rules = Array.from(walked('rules', data.rules), (rule) => ({ ...rule, source: sourceText(rule) }));
  return {
    ...walked('', { ...data, rules: [], advice: {} }),
    rules,
    advice,
    ruleNames,
    leaders: [],
    notes: notes.length === 0 ? [] : [`${notes.length} notes of the command are left out.`],
    namespaces: data.namespaces?.map((one) => ({ ...walked('', one), name: namespaces.of(one.name) })) ?? null,
  };
}

function sourceText({ from }: PageRule): string {
  return from === null ? LEFT_OUT : `${from.kind.toLowerCase()} ${from.namespace}/${from.name}`;
}
