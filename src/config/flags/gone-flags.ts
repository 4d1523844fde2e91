/** Settings that Keyferry no longer has. If they were ignored, it would read and write in more namespaces than before. */
import { UsageError } from '../usage-error.ts';
import { type ProcessInfo, variableOf } from './flags.ts';

/** What to do instead, by the name of the flag. */
const GONE: Readonly<Record<string, string>> = {
  'namespace-selector': 'name the namespaces with --namespaces',
};

/** What to do instead of a flag that is gone; `undefined`: there was no such flag. @param name without dashes */
export function insteadOf(name: string): string | undefined {
  return Object.hasOwn(GONE, name) ? `there is no --${name} any more: ${GONE[name]}` : undefined;
}

/** @throws UsageError: the environment has a variable for a flag that is gone */
export function refuseGoneVariables(env: ProcessInfo['env']): void {
  for (const [name, instead] of Object.entries(GONE)) {
    const variable = variableOf(name);
    if (env[variable]) throw new UsageError(`$${variable} is set, but has no effect any more: ${instead}`);
  }
}
