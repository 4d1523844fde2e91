/** A system for the benchmark: how users request copies, how the controller is started, and which rows are measured. */
import type { TestApi } from '../support/api.ts';
import type { Row } from './rows.ts';
import type { Fleet } from './workload.ts';

export type SystemName = 'mirrors' | 'replicator' | 'vault';

export interface BenchSystem extends Partial<AsyncDisposable> {
  readonly name: SystemName;
  /** In the order of measurement. */
  readonly rows: readonly Row[];
  /** Arguments of `keyferry`, besides the kubeconfig and the status address. */
  readonly args: readonly string[];
  /** Creates the APIs and servers that it needs. */
  install(api: TestApi, crds: string, onProgress: (line: string) => void): Promise<void>;
  /** Creates the sources of this generation, and the rules that copy them. */
  createSources(api: TestApi, generation: string, fleet?: Fleet): Promise<void>;
  /** Deletes the owners of the copies. */
  removeOwners(api: TestApi): Promise<void>;
}
