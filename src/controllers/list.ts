/** The list of all controllers. A new controller is a folder, a line here, and its flags in `config/`. */
import type { ControllerName } from '../config/controllers.ts';
import type { ControllerEntry } from './common/context.ts';
import type { ProgramReader } from './common/migration.ts';
import type { ControllerReader } from './common/snapshot/reader.ts';
import { generator } from './generator/controller.ts';
import { mirrors } from './mirrors/controller.ts';
import { replicator } from './replicator/controller.ts';
import { syncSecretCcm } from './syncsecret/ccm.ts';
import { syncSecretManager } from './syncsecret/manager.ts';
import { secretSynchronizer } from './syncsecret/synchronizer.ts';

/** Keyferry looks for the marks of controllers on an object in this order. */
export const CONTROLLER_LIST: readonly ControllerEntry[] = [
  replicator,
  mirrors,
  syncSecretManager,
  syncSecretCcm,
  secretSynchronizer,
  generator,
];

/** The readers of these controllers. Default: all. Controllers with the same first word, as `syncsecret`, share one. */
export async function controllerReaders(controllers?: readonly ControllerName[]): Promise<ControllerReader[]> {
  const systemOf = (name: ControllerName): string | undefined => name.split('-')[0];
  const entries = CONTROLLER_LIST.filter(
    ({ name }) => controllers?.some((one) => systemOf(one) === systemOf(name)) ?? true,
  );
  return await Promise.all(entries.flatMap((entry) => entry.reader?.() ?? []));
}

/** The programs whose objects `migrate` reads. */
export async function programReaders(): Promise<ProgramReader[]> {
  const readers = await Promise.all(CONTROLLER_LIST.flatMap((entry) => entry.programs?.() ?? []));
  return readers.flat();
}
