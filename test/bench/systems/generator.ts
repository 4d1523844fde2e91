/**
 * Measures the generator: ExternalSecrets need values that Vault lacks. A client takes the place of External Secrets
 * Operator (ESO). The results are separate rows of the table.
 */
import { generatorRows } from '../generator-rows.ts';
import { GeneratorWork } from '../generator-work.ts';
import type { BenchSystem } from '../system.ts';

export function generatorSystem(): BenchSystem {
  const work = new GeneratorWork();
  return {
    name: 'generator',
    args: ['generator'],
    rows: generatorRows(work),
    install: (ground) => work.start(ground),
    [Symbol.asyncDispose]: () => work[Symbol.asyncDispose](),
  };
}
