/** Namespaces selected by names and patterns. */
import type { NamespacePattern } from './namespace-patterns.ts';

export class NamespaceSet {
  readonly names: ReadonlySet<string>;
  readonly patterns: readonly NamespacePattern[];

  constructor(names: ReadonlySet<string>, patterns: readonly NamespacePattern[]) {
    this.names = names;
    this.patterns = patterns;
  }

  /** Patterns that are plain names become names, which need only a lookup. */
  static of(patterns: readonly NamespacePattern[]): NamespaceSet {
    const names = new Set<string>();
    const rest = new Set<NamespacePattern>();
    for (const pattern of patterns) {
      if (pattern.literal === undefined) rest.add(pattern);
      else names.add(pattern.literal);
    }
    return new NamespaceSet(names, [...rest]);
  }

  has(namespace: string): boolean {
    return this.names.has(namespace) || this.patterns.some((pattern) => pattern.matches(namespace));
  }
}
