/** The CRD is installed, deleted and installed again while the operator runs. */
import assert from 'node:assert/strict';
import { after, before, it } from 'node:test';

import { readCrds } from '../../../scripts/crd/read-crds.ts';
import { startControlPlane } from '../../servers/control-plane.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { longIt } from '../../support/long.ts';
import { waitFor } from '../../support/wait-for.ts';
import { COPY_LABEL, HOME, MirrorScene, OWNED_BY, PLACE } from './support.ts';

const DEFINITION = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/secretmirrors.mirrors.kts.studio';
/** Keyferry must notice a change of the CRD within 5 s. This limit (ms) is longer, for a busy machine. */
const NOTICED_MS = 15_000;
const ADVICE = /keyferry crds \| kubectl apply --server-side -f -/;

let scene: MirrorScene;

before(async () => {
  scene = new MirrorScene(await startControlPlane({ controllerManager: false }));
  await scene.namespaces('team-a');
  await scene.secret(HOME, 'mirrored', { a: '1' });
});
after(() => scene.close());

/** Waits for the copy of an annotated Secret, which shows that the replicator works. */
async function replicates(name: string): Promise<void> {
  await scene.secret(
    HOME,
    name,
    { a: '1' },
    { metadata: { annotations: { 'k8s-replicator/replicate-to-namespaces': 'team-a' } } },
  );
  await waitFor(async () => (await scene.find('team-a', name))?.data?.a === scene.value('1'), {
    message: () => `the copy of ${name}; ${scene.tail()}`,
  });
}

async function mirrors(): Promise<void> {
  await scene.api.apply(readCrds());
  const path = '/apis/mirrors.kts.studio/v1alpha2/secretmirrors';
  await waitFor(async () => (await scene.api.raw('GET', path)).status === 200, { message: 'the API to be served' });
  await scene.mirror('mirrored', ['team-a']);
  await scene.copied('team-a', 'mirrored', { a: '1' }, NOTICED_MS);
}

it('if the SecretMirror CRD is deleted and created again, a running operator notices it, and copies annotated Secrets without the CRD', async () => {
  const keyferry = await scene.operator();
  await replicates('before');
  await mirrors();
  for (const round of ['first', 'second']) {
    await scene.api.delete(DEFINITION);
    // The server deletes the mirrors together with their CRD. Then Keyferry deletes the copies.
    await waitFor(async () => (await scene.api.find(DEFINITION)) === undefined, { message: () => scene.tail() });
    assert.equal(await scene.find('team-a', 'mirrored'), undefined);
    await waitFor(async () => ADVICE.test((await keyferry.probe('/readyz?verbose')).text), {
      message: 'the probe to report that the CRD is missing',
    });
    assert.equal(await keyferry.isReady(), true, 'as a process that is started without it');
    await replicates(`without-${round}`);
    await mirrors();
    await waitFor(async () => !ADVICE.test((await keyferry.probe('/readyz?verbose')).text), {
      message: 'all to be well',
    });
  }
  const reported = keyferry.logs().filter(({ advice }) => advice !== undefined);
  assert.ok(reported.length >= 1 && reported.length <= 4, `reported ${reported.length} times`);
});

longIt(
  'an operator that starts without the SecretMirror CRD logs one time how to install it, and deletes no copy of a mirror',
  async () => {
    await scene.api.delete(DEFINITION);
    await waitFor(async () => (await scene.api.find(DEFINITION)) === undefined, { message: () => scene.tail() });
    const marks = {
      labels: { [COPY_LABEL]: 'mirrors' },
      annotations: { [OWNED_BY]: `${HOME}/left`, [PLACE]: 'team-a/left' },
    };
    await scene.secret('team-a', 'left', { a: '1' }, { metadata: marks });
    await using keyferry = await Keyferry.start({ kubeconfig: scene.plane.kubeconfigPath });
    const waits = (): ReturnType<typeof keyferry.logs> =>
      keyferry.logs().filter(({ msg, watch }) => msg === 'watch failed, retrying' && watch === 'secretmirrors');
    await waitFor(() => waits().length > 0, { message: () => keyferry.output });
    await keyferry.ready();
    await replicates('started-without');
    // Its mirror is asked for, and the answer is no proof that the mirror is gone.
    const isAsked = (): boolean => keyferry.logs().some(({ target }) => String(target).endsWith('/team-a/left'));
    await waitFor(isAsked, { message: () => keyferry.output });
    assert.ok(await scene.find('team-a', 'left'));
    assert.deepEqual([waits().length, ADVICE.test(String(waits()[0]?.['advice']))], [1, true]);
  },
);

longIt(
  'with --controllers=mirrors,replicator but no SecretMirror CRD, an operator is not ready, gives the reason, and copies annotated Secrets',
  async () => {
    await scene.api.delete(DEFINITION);
    await waitFor(async () => (await scene.api.find(DEFINITION)) === undefined, { message: () => scene.tail() });
    const kubeconfig = scene.plane.kubeconfigPath;
    await using keyferry = await Keyferry.start({ kubeconfig, args: ['--controllers=mirrors,replicator'] });
    await waitFor(async () => ADVICE.test((await keyferry.probe('/readyz')).text), { message: () => keyferry.output });
    assert.equal(await keyferry.isReady(), false);
    await replicates('named');
    await mirrors();
    await keyferry.ready();
  },
);
