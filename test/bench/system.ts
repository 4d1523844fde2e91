/** A system as the benchmark sees it: how copies are asked for, and how it is started. The rows are the same for all. */
import type { TestApi } from '../support/api.ts';

export interface BenchSystem {
  readonly name: 'mirrors' | 'replicator';
  /** Arguments of `keyferry` beside the kubeconfig and the status address. */
  readonly args: readonly string[];
  /** APIs that have to be there. */
  install(api: TestApi, crds: string): Promise<void>;
  /** Makes the 20 sources of this generation, and asks for their copies. */
  createSources(api: TestApi, generation: string): Promise<void>;
  /** Takes away what owns the copies. */
  removeOwners(api: TestApi): Promise<void>;
}
