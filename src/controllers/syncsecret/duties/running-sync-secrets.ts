/** The SyncSecrets of a running controller: their changes go to the engine, and their events to the API server and the log. */
import type { ControllerContext } from '../../common/context.ts';
import type { SyncSecretMetrics } from '../metrics.ts';
import { SyncSecrets, type SyncSecretsOptions } from './sync-secrets.ts';

/** @param component the source component of events */
export function runningSyncSecrets(
  { engine, cluster, clock, recordEvent }: ControllerContext,
  component: string,
  metrics: SyncSecretMetrics,
  options: Pick<SyncSecretsOptions, 'controller' | 'isRule'>,
): SyncSecrets {
  return new SyncSecrets({
    ...options,
    api: cluster.api,
    onChange: (rule, initial) => {
      metrics.started(rule);
      engine.enqueueRule(rule, initial ? 'low' : 'normal');
    },
    onForeignStatus: (rule) => engine.enqueueStatus(rule),
    recordEvent: (event) => {
      const { kind, namespace, name } = event.subject;
      recordEvent(component, event, { kind, namespace, name });
    },
    now: () => clock.now(),
  });
}
