/** A system for the benchmark: how users request copies, how the controller is started, and which rows are measured. */
import type { ControlPlane } from '../servers/control-plane.ts';
import type { TestApi } from '../support/api.ts';
import type { View } from './copy-tracker.ts';
import type { BenchOptions } from './options.ts';
import type { Row } from './rows.ts';
import type { Fleet } from './workload.ts';

export type SystemName = 'generator' | 'mirrors' | 'replicator' | 'syncsecret' | 'vault';

/** What a system is installed on. */
export interface Ground {
  readonly plane: ControlPlane;
  readonly crds: string;
  readonly options: BenchOptions;
  readonly onProgress: (line: string) => void;
}

export interface BenchSystem extends Partial<AsyncDisposable> {
  readonly name: SystemName;
  /** In the order of measurement. */
  readonly rows: readonly Row[];
  /** How its copies are recognized. Default: by namespace and name. */
  readonly view?: View;
  /** Arguments of `keyferry`, besides the kubeconfig and the status address. */
  readonly args: readonly string[];
  /** Creates the APIs and servers that it needs. */
  install(ground: Ground): Promise<void>;
  /** Creates the sources of this generation, and the rules that copy them. */
  createSources(api: TestApi, generation: string, fleet?: Fleet): Promise<void>;
  /** Deletes the owners of the copies. */
  removeOwners(api: TestApi): Promise<void>;
}
