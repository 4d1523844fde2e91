/**
 * The generator: ExternalSecrets whose values Vault lacks. A client plays External Secrets Operator (ESO). It has rows
 * of its own.
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
    createSources: async () => await work.createFailing('token'),
    removeOwners: async () => await work.removeFailing('token'),
    [Symbol.asyncDispose]: () => work[Symbol.asyncDispose](),
  };
}
