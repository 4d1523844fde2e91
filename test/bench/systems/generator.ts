/** ExternalSecrets whose values Vault does not have, with rows of their own. A stand-in plays External Secrets Operator (ESO). */
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
