/** The names of the controllers. */
export const CONTROLLERS = [
  'mirrors',
  'replicator',
  'syncsecret-manager',
  'syncsecret-ccm',
  'syncsecret-synchronizer',
  'generator',
] as const;

export type ControllerName = (typeof CONTROLLERS)[number];

/** The controllers of `run` without --controllers. CCM and manager must be named: each belongs in another cluster. */
export const DEFAULT_CONTROLLERS: readonly ControllerName[] = ['mirrors', 'replicator', 'generator'];
