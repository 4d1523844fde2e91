/** A system that is measured: how users ask for copies, how its controller is started, and which rows it has. */
import type { ControlPlane } from '../servers/control-plane.ts';
import type { TestApi } from '../support/api.ts';
import type { View } from './copy-tracker.ts';
import type { BenchOptions } from './options.ts';
import type { Row } from './rows.ts';
import type { Fleet } from './workload.ts';

export type SystemName = 'generator' | 'mirrors' | 'replicator' | 'syncsecret' | 'vault';

/** The cluster and the tools with which a system is installed. */
export interface Ground {
  readonly plane: ControlPlane;
  readonly crds: string;
  readonly options: BenchOptions;
  readonly onProgress: (line: string) => void;
}

export interface BenchSystem extends Partial<AsyncDisposable> {
  readonly name: SystemName;
  /** Its rows, in the order of measurement. */
  readonly rows: readonly Row[];
  /** How its copies are recognized. Default: Secrets by namespace and name. */
  readonly view?: View;
  /** The arguments of `keyferry` besides the kubeconfig and the status address. */
  readonly args: readonly string[];
  /** Installs the APIs and starts the servers that the system needs. */
  install(ground: Ground): Promise<void>;
  /** Creates the sources with this generation, and the rules that copy them. */
  createSources(api: TestApi, generation: string, fleet?: Fleet): Promise<void>;
  /** Deletes the rules, and with them the copies. */
  removeOwners(api: TestApi): Promise<void>;
}
