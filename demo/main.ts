/**
 * `keyferry demo`: starts real servers on this machine and Keyferry, and shows live what Keyferry does.
 *
 *   ground ──▶ CRDs ──▶ Keyferry ──▶ walks ──▶ (with --once) end
 *                                     └──────▶ runs until Ctrl-C ──▶ end
 *
 * The end is the same in every state: on a borrowed cluster all objects of the demo are deleted, then Keyferry stops, then the servers.
 */
import { parseArgs } from 'node:util';

import { errorText } from '../src/observe/error-fields.ts';
import { orAborted } from '../src/runtime/abort.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { DemoCluster, type Manifest, pathOf } from './cluster.ts';
import { givenGround, type Ground, installCrds, ownGround } from './ground.ts';
import { OperatorProcess } from './operator.ts';
import { Screen, took } from './screen.ts';
import type { Stage, Walk } from './walk.ts';
import { generatorWalk } from './walks/generator.ts';
import { mirrorsWalk } from './walks/mirrors.ts';
import { replicatorWalk } from './walks/replicator.ts';
import { syncSecretWalk } from './walks/syncsecret.ts';
import { vaultWalk } from './walks/vault.ts';

const WALKS: readonly Walk[] = [mirrorsWalk, replicatorWalk, vaultWalk, syncSecretWalk, generatorWalk];
/** Timeout of one step of a walk, ms. */
const STEP_TIMEOUT_MS = 15_000;
const POLL_MS = 10;
/** A cluster takes 5 to 10 s to empty and delete a namespace. */
const NAMESPACES_TIMEOUT_MS = 30_000;

interface Options {
  readonly once: boolean;
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
}

async function demo(options: Options, screen: Screen, signal: AbortSignal): Promise<void> {
  const startedAt = performance.now();
  screen.title('Keyferry demo');
  screen.blank();
  const borrowed = options.kubeconfig !== undefined || options.context !== undefined;
  await using ground = await orAborted(
    borrowed ? givenGround(screen, options, signal) : ownGround(screen, signal),
    signal,
    'getting the servers',
  );
  const cluster = new DemoCluster(ground.api, signal);
  const crds = await installCrds(cluster, screen, signal);
  await using resources = new AsyncDisposableStack();
  const begun: Walk[] = [];
  let stage: Stage | undefined;
  let hasStarted = false;
  let allClean = true;
  try {
    // Before Keyferry runs: on a borrowed cluster it must find only the objects of the walks.
    const common = { cluster, ground, screen, signal, borrowed, resources };
    const early: Stage = { ...common, until: untilOf(undefined, signal) };
    if (ground.borrowed) for (const walk of WALKS) await walk.check(early);
    hasStarted = true;
    await using operator = await startOperator(ground, screen);
    stage = { ...common, until: untilOf(operator, signal) };
    try {
      for (const walk of WALKS) {
        screen.title(walk.title);
        begun.push(walk);
        await walk.run(stage);
      }
      if (!options.once) await stay(stage, ground, operator, startedAt);
    } finally {
      if (ground.borrowed) allClean = await cleanUp(begun, { ...stage, until: untilOf(operator, undefined) });
    }
  } finally {
    if (ground.borrowed) {
      const crdsGone = await deleteCrds(crds, cluster, screen);
      screen.blank();
      if (!hasStarted) {
        if (crdsGone) screen.done('this cluster is as it was before');
      } else if ((await namespacesGone(cluster, screen)) && allClean && crdsGone) {
        screen.done('deleted all objects of the demo from this cluster');
      }
    }
  }
}

async function startOperator(ground: Ground, screen: Screen): Promise<OperatorProcess> {
  screen.progress('starting Keyferry');
  const startedAt = performance.now();
  const operator = await OperatorProcess.start(ground);
  screen.done('Keyferry is ready', `process ${operator.pid ?? '?'}, ${took(performance.now() - startedAt)}`);
  return operator;
}

async function stay(stage: Stage, ground: Ground, operator: OperatorProcess, startedAt: number): Promise<void> {
  const { screen, signal } = stage;
  for (const walk of WALKS) await walk.leave(stage);
  const flag = ground.kubeconfigPath === undefined ? '' : ` --kubeconfig ${ground.kubeconfigPath}`;
  screen.title(`Your turn (${took(performance.now() - startedAt)} after the start)`);
  screen.blank();
  screen.note('The demo has applied the mirror again. Everything keeps running:');
  screen.blank();
  screen.output([
    ...(ground.kubeconfigPath === undefined ? [] : [`kubeconfig  ${ground.kubeconfigPath}`]),
    `metrics     ${operator.statusUrl}/metrics`,
    `log         ${operator.logFile}`,
  ]);
  screen.blank();
  screen.command(`kubectl${flag} get secretmirrors -A`);
  screen.command(`npx keyferry status${flag}`);
  screen.command(`kubectl${flag} create namespace project-a-mine`);
  screen.command(`kubectl${flag} create namespace jx-mine`);
  screen.blank();
  screen.note('Ctrl-C stops everything.');
  while (!signal.aborted) {
    operator.assertRunning();
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, 1000);
      signal.addEventListener('abort', () => {
        clearTimeout(timer);
        resolve(undefined);
      });
    });
  }
}

/** Implements `Stage.until`; fails when Keyferry exits. */
function untilOf(operator: OperatorProcess | undefined, signal: AbortSignal | undefined): Stage['until'] {
  return async (what, condition) => {
    const answer = await waitFor(
      async () => {
        try {
          operator?.assertRunning();
        } catch (error) {
          return { error };
        }
        const value = await condition();
        return value === undefined ? undefined : { value };
      },
      {
        timeoutMs: STEP_TIMEOUT_MS,
        intervalMs: POLL_MS,
        message: what,
        ...(signal === undefined ? {} : { signal }),
      },
    );
    if ('error' in answer) throw answer.error;
    return answer.value;
  };
}

/** Continues after an error, with a warning. @returns whether everything was deleted */
async function cleanUp(walks: readonly Walk[], stage: Stage): Promise<boolean> {
  let all = true;
  for (const walk of walks.toReversed()) {
    try {
      await walk.clean(stage);
    } catch (error) {
      all = false;
      stage.screen.warn(`could not clean up after "${walk.title}": ${errorText(error)}`);
    }
  }
  return all;
}

/** Deletes the CRDs that the demo made. Continues after an error, with a warning. @returns whether all were deleted */
async function deleteCrds(crds: readonly Manifest[], cluster: DemoCluster, screen: Screen): Promise<boolean> {
  let all = true;
  for (const crd of crds) {
    try {
      await cluster.delete(pathOf(crd));
    } catch (error) {
      all = false;
      screen.warn(`could not delete the CRD ${crd.metadata.name}: ${errorText(error)}`);
    }
  }
  return all;
}

/** Waits until the namespaces of the demo are deleted, because the next demo needs their names. @returns whether they are deleted */
async function namespacesGone(cluster: DemoCluster, screen: Screen): Promise<boolean> {
  let left: readonly string[] = [];
  const look = async (): Promise<boolean> => (left = await cluster.namespacesLeft()).length === 0;
  try {
    if (await look()) return true;
    screen.progress('waiting until the namespaces of the demo are deleted');
    await waitFor(look, {
      timeoutMs: NAMESPACES_TIMEOUT_MS,
      intervalMs: 200,
      message: 'the namespaces of the demo to be deleted',
    });
    return true;
  } catch (error) {
    screen.warn(`namespaces still in deletion: ${left.join(', ')} (${errorText(error)})`);
    return false;
  }
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      once: { type: 'boolean', default: false },
      kubeconfig: { type: 'string' },
      context: { type: 'string' },
    },
  });
  const screen = new Screen({ out: process.stdout, env: process.env });
  const stop = new AbortController();
  // Two signals are normal: a terminal sends one to every process of the group, and npm forwards another.
  const onSignal = (): void => {
    if (stop.signal.aborted) return;
    stop.abort(new Error('stopped'));
    screen.blank();
    screen.progress('stopping');
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal).on('SIGHUP', onSignal);
  try {
    const { once, kubeconfig, context } = values;
    await demo({ once, kubeconfig, context }, screen, stop.signal);
    screen.done(once && !stop.signal.aborted ? 'done; everything is stopped' : 'everything is stopped');
    return 0;
  } catch (error) {
    if (stop.signal.aborted) {
      screen.done('everything is stopped');
      return 0;
    }
    screen.failure(`demo: ${error instanceof Error ? error.message : String(error)}`);
    return 1;
  }
}

// Not `exitCode`: servers that were still starting at the signal are stopped by the reaper after this process.
process.exit(await main());
