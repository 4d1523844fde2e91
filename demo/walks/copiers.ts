/** Shows three controllers of annotations: those of reflector, of mittwald's kubernetes-replicator and of config-syncer. */
import { Arrivals } from '../arrivals.ts';
import { OperatorProcess } from '../operator.ts';
import { took } from '../screen.ts';
import type { Stage, Walk } from '../walk.ts';
import { apply } from './apply.ts';
import { password, patchPassword } from './secrets.ts';

const CONTROLLERS = 'reflector,mittwald,config-syncer';
const NAMESPACE = 'shop';
/** In the order of the manifest, where a namespace comes first. */
const NAMES = ['as-reflector', 'as-mittwald', 'as-config-syncer'] as const;
const EDITED = { namespace: NAMESPACE, name: 'as-mittwald' } as const;

export const copiersWalk: Walk = {
  name: 'copiers',
  servers: [],
  title: 'Annotations of reflector, kubernetes-replicator (mittwald) and config-syncer',

  async check() {
    // Nothing to check: this walk is skipped in a user's cluster.
  },

  async run(stage) {
    const { screen, cluster, ground, resources } = stage;
    if (stage.borrowed) {
      screen.note('skipped: in this cluster, one of these programs may run');
      return;
    }
    screen.blank();
    screen.command(`keyferry run --controllers ${CONTROLLERS} --kubeconfig ${ground.kubeconfigPath}`);
    resources.use(await OperatorProcess.start(ground, ['run', '--controllers', CONTROLLERS], 'copiers'));
    await using arrivals = new Arrivals(cluster.api, { collection: 'secrets', path: '/api/v1/secrets' });
    await arrivals.synced;
    await copy(stage, arrivals);
    await edit(stage, arrivals);
  },

  async leave() {
    // Nothing to prepare: the second Keyferry runs on.
  },

  async clean() {
    // Nothing to delete: this walk is skipped in a user's cluster.
  },
};

async function copy(stage: Stage, arrivals: Arrivals): Promise<void> {
  const { screen, cluster, until } = stage;
  await stage.section('Three Secrets, each with the annotations of another program');
  const [, ...startedAt] = await apply(stage, 'three-copiers.yaml');
  const times: number[] = [];
  for (const [index, name] of NAMES.entries()) {
    const at = await until(`the copy ${name}`, () => arrivals.newerThan(`${NAMESPACE}/${name}`));
    times.push(at - (startedAt[index] ?? at));
  }
  screen.command(`kubectl -n ${NAMESPACE} get secrets`);
  screen.output(await cluster.table(`/api/v1/namespaces/${NAMESPACE}/secrets`));
  screen.blank();
  for (const [index, name] of NAMES.entries())
    screen.done(`${NAMESPACE}/${name}`, `${took(times[index] ?? 0)} after its source`);
}

async function edit(stage: Stage, arrivals: Arrivals): Promise<void> {
  const { screen, until } = stage;
  await stage.section('Somebody edits a copy');
  const { startedAt, resourceVersion } = await patchPassword(stage, EDITED, 'oops');
  screen.blank();
  const key = `${EDITED.namespace}/${EDITED.name}`;
  const at = await until('the repair', () => arrivals.newerThan(key, resourceVersion));
  await until('the old value', async () => ((await password(stage, EDITED)) === 'qwerty' ? true : undefined));
  screen.done(key, `repaired ${took(at - startedAt)} after the edit`);
}
