import type { Json, TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import type { SyncSecretScene } from './support.ts';

/** Waits until the event about an object counts at least this many occurrences. */
export async function counted(scene: SyncSecretScene, object: Json, count: number, api: TestApi): Promise<void> {
  await waitFor(async () => (await scene.event(object, 'SyncFailed', undefined, api)).count >= count, {
    message: `${count} events`,
  });
}
