/**
 * A process that takes part in a leader election with the default durations, until it is killed. Its arguments:
 * `KUBECONFIG IDENTITY LEASE`. It prints `leading` when it becomes the leader.
 */
import { LeaderElector } from '../../../src/kube/leader-election/elector.ts';
import { kubeApi } from './api.ts';

const [kubeconfig = '', identity = '', name = ''] = process.argv.slice(2);
await using api = await kubeApi(kubeconfig);
const elector = new LeaderElector({
  api,
  namespace: 'default',
  name,
  identity,
  leaseDurationMs: 15_000,
  renewDeadlineMs: 10_000,
  retryMs: 2000,
  onError: (error) => {
    console.error(error);
  },
});
await elector.run({
  signal: new AbortController().signal,
  onStartedLeading: () => {
    console.log('leading');
    return new Promise(() => undefined);
  },
});
