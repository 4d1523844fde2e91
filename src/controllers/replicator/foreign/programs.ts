/** The programs whose annotations `keyferry migrate` turns into those of the replicator. */
import { configSyncer } from './config-syncer.ts';
import { mittwald } from './kubernetes-replicator.ts';
import { reflector } from './reflector.ts';
import type { Foreign } from './requests.ts';

export const FOREIGN: readonly Foreign[] = [reflector, mittwald, configSyncer];
