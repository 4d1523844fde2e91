/** Named checks of the process, which the probes run. */
import { errorText } from './error-fields.ts';

export interface CheckResult {
  readonly ok: boolean;
  /** Names and ages, never values. */
  readonly message?: string;
}

export interface Check {
  /** Short and stable: `watch-synced/local/Secret/copies`. */
  readonly name: string;
  readonly check: () => CheckResult;
  /** It is shown, and the probe does not depend on it. */
  readonly isInformational?: boolean;
}

export interface NamedResult extends CheckResult {
  readonly name: string;
  readonly isInformational: boolean;
}

/** The checks of one probe, read at each request. No checks: the probe succeeds. */
export type Checks = () => readonly Check[];

/** Runs the checks. A check that throws has failed. */
export function runChecks(checks: Checks): NamedResult[] {
  return checks().map(resultOf);
}

function resultOf({ name, check, isInformational = false }: Check): NamedResult {
  try {
    return { name, isInformational, ...check() };
  } catch (error) {
    return { name, isInformational, ok: false, message: errorText(error) };
  }
}
