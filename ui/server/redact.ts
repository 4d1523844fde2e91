/**
 * Gives all names in a report other names, which are the same within one report and tell nothing beyond it. Messages,
 * hosts, Vault paths and patterns are left out, because names are in them. Kinds, reasons, states and times stay.
 */
import { randomBytes } from 'node:crypto';

import type { PageData, PageRule, Place } from '../data.ts';

const LEFT_OUT = '(left out)';

/** `namespace-1`, `name-1`, … in an order that does not follow the names. */
class Pseudonyms {
  readonly #word: string;
  readonly #known = new Map<string, string>();

  constructor(word: string) {
    this.#word = word;
  }

  of(name: string): string {
    if (name === '') return '';
    const known = this.#known.get(name) ?? `${this.#word}-${this.#known.size + 1}`;
    this.#known.set(name, known);
    return known;
  }

  /** Gives all names their pseudonyms, in random order: the page sorts by name, and so would tell the order. */
  prepare(names: Iterable<string>): void {
    const keyed = [...new Set(names)].map((name) => [randomBytes(8).toString('hex'), name] as const);
    for (const [, name] of keyed.toSorted(([a], [b]) => (a < b ? -1 : 1))) this.of(name);
  }
}

export function redacted(data: PageData): PageData {
  const [namespaces, names] = [new Pseudonyms('namespace'), new Pseudonyms('name')];
  const places = [
    ...data.rules.flatMap((rule) => [rule, ...rule.copies, ...rule.failing, ...(rule.from ? [rule.from] : [])]),
    ...data.orphans,
  ];
  const left = data.rules.flatMap(({ refused }) => refused);
  namespaces.prepare(
    [...places, ...left].map(({ namespace }) => namespace).concat(data.namespaces?.map((one) => one.name) ?? []),
  );
  names.prepare(places.map(({ name }) => name));
  const place = <T extends Omit<Place, 'cluster'>>(one: T): T => ({
    ...one,
    namespace: namespaces.of(one.namespace),
    name: names.of(one.name),
  });
  const rule = (one: PageRule): PageRule => {
    const there = place(one);
    return {
      ...there,
      id: `${there.system} ${there.kind} ${there.namespace}/${there.name}`,
      source: one.from === null ? LEFT_OUT : sourceText(place(one.from)),
      destinations: one.destinations.map(() => LEFT_OUT),
      message: '',
      from: one.from === null ? null : { ...place(one.from), cluster: one.from.cluster },
      copies: one.copies.map((copy) => place({ ...copy, sourceVersion: '' })),
      failing: one.failing.map((failing) => place({ ...failing, message: '' })),
      refused: one.refused.map(({ namespace, reason }) => ({
        namespace: namespaces.of(namespace),
        reason,
        message: '',
      })),
      warnings: one.warnings.map(() => LEFT_OUT),
    };
  };
  return {
    ...data,
    cluster: LEFT_OUT,
    leaders: [],
    notes: data.notes.length === 0 ? [] : [`${data.notes.length} notes of the command are left out.`],
    namespaces:
      data.namespaces?.map(({ name, acceptFrom, closed }) => ({
        name: namespaces.of(name),
        ...(acceptFrom !== undefined && { acceptFrom: LEFT_OUT }),
        ...(closed !== undefined && { closed: LEFT_OUT }),
      })) ?? null,
    rules: data.rules.map(rule),
    orphans: data.orphans.map((orphan) => ({
      ...place(orphan),
      sourceVersion: '',
      owner: orphan.owner === '' ? '' : LEFT_OUT,
      reason: LEFT_OUT,
    })),
  };
}

function sourceText({ kind, namespace, name }: Omit<Place, 'cluster'>): string {
  return `${kind.toLowerCase()} ${namespace}/${name}`;
}
