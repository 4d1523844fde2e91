/** A system as the benchmark sees it: how copies are asked for, how it is started, and what is measured of it. */
import type { TestApi } from '../support/api.ts';
import type { Row } from './rows.ts';
import type { Fleet } from './workload.ts';

export type SystemName = 'mirrors' | 'replicator' | 'vault';

export interface BenchSystem extends Partial<AsyncDisposable> {
  readonly name: SystemName;
  /** In the order in which they are measured. */
  readonly rows: readonly Row[];
  /** Arguments of `keyferry` beside the kubeconfig and the status address. */
  readonly args: readonly string[];
  /** APIs and servers that have to be there. */
  install(api: TestApi, crds: string, onProgress: (line: string) => void): Promise<void>;
  /** Makes the sources of this generation, and asks for their copies. */
  createSources(api: TestApi, generation: string, fleet?: Fleet): Promise<void>;
  /** Takes away what owns the copies. */
  removeOwners(api: TestApi): Promise<void>;
}
