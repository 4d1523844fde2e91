/** Named checks of the process, run by the probes. */
import { errorText } from './error-fields.ts';
import { SourceSet } from './source-set.ts';

export interface CheckResult {
  readonly ok: boolean;
  /** Why not, or what is there: names and ages, never values. */
  readonly message?: string;
}

export interface Check {
  /** Short and stable: `watch-synced/local/Secret/copies`. */
  readonly name: string;
  check(): CheckResult;
}

/** A check's answer beside its name. */
export interface NamedResult extends CheckResult {
  readonly name: string;
}

/** The checks behind one probe. An empty list is fulfilled. */
export class CheckList {
  readonly #checks = new SourceSet<Check>();

  /** Adds a check; the answer takes it out again. */
  add(check: Check): () => void {
    return this.#checks.add(() => [check]);
  }

  /** Adds checks that come and go, read each time. */
  addSource(read: () => Iterable<Check>): () => void {
    return this.#checks.add(read);
  }

  /** Asks all. A check that throws has failed. */
  run(): NamedResult[] {
    return this.#checks.read().map((check) => resultOf(check));
  }
}

function resultOf(check: Check): NamedResult {
  try {
    return { name: check.name, ...check.check() };
  } catch (error) {
    return { name: check.name, ok: false, message: errorText(error) };
  }
}
