import type { Json, TestApi } from '../../support/api.ts';
import type { Keyferry } from '../../support/keyferry.ts';
import type { Role, Trial } from '../../support/permission-trial.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type SyncSecretScene, syncSecretPath } from './support.ts';

/**
 * Removes the permissions for events, one after the other. Checks that without `create` an event is missing, and
 * without `patch` the count of an event stays. A process writes the counts that wait when it stops.
 * @param object a synced SyncSecret in the cluster of `api`, where the program writes its events
 */
export async function withoutEvents(
  trial: Trial,
  role: Role,
  scene: SyncSecretScene,
  object: Json,
  api: TestApi,
  start: () => Promise<Keyferry>,
): Promise<void> {
  const path = syncSecretPath(object.metadata.namespace, object.metadata.name);
  const fail = async (): Promise<void> => {
    await api.patch(path, { type: 'kubernetes.io/tls' });
    await scene.phase(object, 'Failed', { api, message: /tls/ });
  };
  const succeed = async (): Promise<void> => {
    await api.patch(path, { type: null });
    await scene.phase(object, 'Synced', { api });
  };
  const counted = async (count: number): Promise<void> => {
    await waitFor(async () => (await scene.event(object, 'SyncFailed', undefined, api)).count >= count, {
      message: `${count} events`,
    });
  };
  const restart = async (): Promise<void> => {
    await trial.program.stop();
    await trial.start(start());
  };
  await trial.without(role, 'events create', fail, succeed);
  await fail();
  await counted(1);
  const missing = await trial.take(role, 'events patch');
  await succeed();
  await fail();
  await restart();
  await missing.isRefused();
  await missing.giveBack();
  await counted(1);
  for (let again = 0; again < 2; again++) {
    await succeed();
    await fail();
  }
  await restart();
  await counted(2);
}
