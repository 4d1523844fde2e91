/** All controllers. A new one is a folder, a line here, and its flags in `config/`. */
import type { ControllerEntry } from './common/context.ts';
import type { ProgramReader } from './common/migration.ts';
import type { ControllerReader } from './common/snapshot/reader.ts';
import { generator } from './generator/controller.ts';
import { mirrors } from './mirrors/controller.ts';
import { replicator } from './replicator/controller.ts';
import { syncSecretCcm } from './syncsecret/ccm.ts';
import { syncSecretManager } from './syncsecret/manager.ts';
import { secretSynchronizer } from './syncsecret/synchronizer.ts';

/** In the order in which their marks are read. */
export const CONTROLLER_LIST: readonly ControllerEntry[] = [
  replicator,
  mirrors,
  syncSecretManager,
  syncSecretCcm,
  secretSynchronizer,
  generator,
];

export async function controllerReaders(): Promise<ControllerReader[]> {
  return await Promise.all(CONTROLLER_LIST.flatMap((entry) => entry.reader?.() ?? []));
}

/** The programs whose objects `migrate` reads. */
export async function programReaders(): Promise<ProgramReader[]> {
  const readers = await Promise.all(CONTROLLER_LIST.flatMap((entry) => entry.programs?.() ?? []));
  return readers.flat();
}
