/** The list of all controllers. A new one is a folder and a line here; `npm run gen` then makes its name known. */
import type { ControllerEntry } from './common/context.ts';
import { configSyncer } from './config-syncer/index.ts';
import { generator } from './generator/index.ts';
import { mirrors } from './mirrors/index.ts';
import { mittwald } from './mittwald/index.ts';
import { reflector } from './reflector/index.ts';
import { replicator } from './replicator/index.ts';
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
  reflector,
  configSyncer,
  mittwald,
  generator,
];
