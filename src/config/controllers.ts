/** The names of the controllers, and which of them run. A new one is named in `src/controllers/list.ts`. */
import type { CONTROLLERS } from './controller-names.ts';

export type ControllerName = (typeof CONTROLLERS)[number];

/** The controllers of `run` without --controllers. CCM and manager must be named: each belongs in another cluster. */
export const DEFAULT_CONTROLLERS: readonly ControllerName[] = ['mirrors', 'replicator', 'generator'];
