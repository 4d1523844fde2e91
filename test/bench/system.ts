/** A system that the benchmark can measure: how users request copies, how its controller starts, and its rows. */
import type { ControlPlane } from '../servers/control-plane.ts';
import type { TestApi } from '../support/api.ts';
import type { View } from './copy-tracker.ts';
import type { BenchOptions } from './options.ts';
import type { Row } from './rows.ts';
import type { Fleet } from './workload.ts';

export type SystemName =
  | 'config-syncer'
  | 'mirrors'
  | 'mittwald'
  | 'page'
  | 'reflector'
  | 'replicator'
  | 'syncsecret'
  | 'vault';

/** The cluster, and the tools to install a system there. */
export interface Ground {
  readonly plane: ControlPlane;
  readonly crds: string;
  readonly options: BenchOptions;
  readonly onProgress: (line: string) => void;
}

/** A controller that copies Secrets between namespaces, for the rows that all of these share. */
export interface Copier {
  /** Creates the sources (with this generation), and rules that copy them. */
  createSources(api: TestApi, generation: string, fleet?: Fleet): Promise<void>;
  /** Deletes the rules. Their copies are then deleted, too. */
  removeOwners(api: TestApi): Promise<void>;
}

export interface BenchSystem extends Partial<AsyncDisposable> {
  readonly name: SystemName;
  /** The rows of the system, in the order of measurement. */
  readonly rows: readonly Row[];
  /** Which objects are its copies. Default: Secrets, by namespace and name. */
  readonly view?: View;
  /** Arguments of `keyferry`, in addition to kubeconfig and status address. */
  readonly args: readonly string[];
  /** Installs the APIs of the system, and starts its servers. */
  install(ground: Ground): Promise<void>;
  readonly copier?: Copier;
}
