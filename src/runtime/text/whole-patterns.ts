/** Patterns in RE2 syntax that an administrator writes for whole names. Their number and size are not limited. */
import { RE2JS } from 're2js';

/** @throws RangeError naming the pattern */
export function parsePattern(source: string): RE2JS {
  try {
    return RE2JS.compile(source);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new RangeError(`${JSON.stringify(source)} is not a pattern in RE2 syntax: ${why}`, { cause: error });
  }
}

export class WholePatterns {
  readonly #patterns: readonly RE2JS[];

  /** @throws RangeError naming the bad pattern */
  constructor(sources: readonly string[]) {
    this.#patterns = sources.map((source) => parsePattern(source));
  }

  /** Whether a pattern matches the whole name. */
  matches(name: string): boolean {
    return this.#patterns.some((pattern) => pattern.testExact(name));
  }
}
