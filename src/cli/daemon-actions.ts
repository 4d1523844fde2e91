/** Which daemons this build has: those with an action. */
import { CONTROLLERS, type ControllerName } from '../config/config.ts';
import { DAEMONS, type Daemon, type DaemonName } from '../config/daemon.ts';
import { daemonOf } from '../config/daemons.ts';
import type { Actions, DaemonAction } from './actions.ts';

/** The controllers whose own command has an action: those that this build has. */
export function availableControllers(actions: Actions): readonly ControllerName[] {
  return CONTROLLERS.filter((name) => actions[name] !== undefined);
}

/** The daemon of a command's name and what it does; `undefined` if there is none. */
export function findDaemon(
  actions: Actions,
  name: string,
): { readonly daemon: Daemon; readonly action: DaemonAction } | undefined {
  const known: DaemonName | undefined = DAEMONS.find((candidate) => candidate === name);
  const action = known === undefined ? undefined : actions[known];
  if (known === undefined || action === undefined) return undefined;
  return { daemon: daemonOf(known, availableControllers(actions)), action };
}
