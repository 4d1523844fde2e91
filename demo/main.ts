/**
 * `npm run demo`: starts real servers and Keyferry on this machine, and shows live what Keyferry does.
 *
 *   cluster ──▶ CRDs ──▶ Keyferry ──▶ walks ──▶ (with --once) end
 *                                       └─────▶ runs until Ctrl-C ──▶ end
 *
 * A walk is a part of the demo that shows one controller. At the end, the demo first deletes its objects from a cluster
 * that is the user's, then stops Keyferry, then its servers.
 */
import { Command } from 'commander';

import type { ServerName } from '../test/servers/catalogue.ts';
import { errorText } from '../src/observe/error-fields.ts';
import { orAborted } from '../src/runtime/abort.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { Builds } from './builds.ts';
import { DemoCluster, type Manifest, pathOf } from './cluster.ts';
import { givenGround, type Ground, installCrds, ownGround } from './ground.ts';
import { Keys } from './keys.ts';
import { OperatorProcess } from './operator.ts';
import { DemoPage, REPORT, writeReport } from './page.ts';
import { Screen, took } from './screen.ts';
import type { Stage, Walk } from './walk.ts';
import { copiersWalk } from './walks/copiers.ts';
import { generatorWalk } from './walks/generator.ts';
import { mirrorsWalk } from './walks/mirrors.ts';
import { replicatorWalk } from './walks/replicator.ts';
import { syncSecretWalk } from './walks/syncsecret.ts';
import { vaultWalk } from './walks/vault.ts';

/**
 * The walks, in the order in which their servers are built. The first four need no servers except those that run from
 * the beginning.
 */
const WALKS: readonly Walk[] = [mirrorsWalk, replicatorWalk, copiersWalk, syncSecretWalk, vaultWalk, generatorWalk];
/** Time limit of one step of a walk, ms. */
const STEP_TIMEOUT_MS = 15_000;
const POLL_MS = 10;
/** Time limit for deleting the namespaces of the demo, ms. A cluster takes 5 to 10 s for it. */
const NAMESPACES_TIMEOUT_MS = 30_000;

interface Options {
  readonly once: boolean;
  readonly kubeconfig: string | undefined;
  readonly context: string | undefined;
  /** The walks that the user wants to see, in this order. */
  readonly walks: readonly Walk[];
}

async function demo(options: Options, screen: Screen, keys: Keys, signal: AbortSignal): Promise<void> {
  const { walks } = options;
  const startedAt = performance.now();
  screen.title('Keyferry demo');
  screen.blank();
  const borrowed = options.kubeconfig !== undefined || options.context !== undefined;
  const builds = new Builds({ screen, signal });
  await using ground = await orAborted(
    borrowed ? givenGround(screen, options, signal) : ownGround(screen, signal, builds, laterServers(options)),
    signal,
    'getting the servers',
  );
  const cluster = new DemoCluster(ground.api, signal, screen.tableWidth);
  const crds = await installCrds(cluster, screen, signal);
  await using resources = new AsyncDisposableStack();
  const begun: Walk[] = [];
  const shown: Walk[] = [];
  let stage: Stage | undefined;
  let hasStarted = false;
  let allClean = true;
  try {
    // In a user's cluster, Keyferry must find no objects for its controllers except those of the walks. So this check
    // runs before Keyferry starts.
    const built = async (): Promise<void> => undefined;
    const section: Stage['section'] = async (title) => screen.section(title);
    const common = { cluster, ground, screen, signal, built, section, borrowed, resources };
    const early: Stage = { ...common, until: untilOf(undefined, signal) };
    if (ground.borrowed) for (const walk of walks) await walk.check(early);
    hasStarted = true;
    await using operator = await startOperator(ground, screen);
    stage = { ...common, until: untilOf(operator, signal) };
    await using page = options.once ? undefined : new DemoPage(ground);
    const url = await page?.address(signal);
    if (url !== undefined) screen.output([`its page    ${url}`]);
    try {
      for (const walk of walks) {
        screen.title(walk.title);
        begun.push(walk);
        const skipped = keys.nextPart();
        const both = AbortSignal.any([signal, skipped]);
        const built: Stage['built'] = async (...names) => await builds.ready(names, both, keys.hint);
        const section: Stage['section'] = async (title) => {
          if (!options.once) await keys.enter(screen, both);
          screen.section(title);
        };
        try {
          await walk.run({ ...stage, signal: both, until: untilOf(operator, both), built, section });
          shown.push(walk);
        } catch (error) {
          if (!skipped.aborted || signal.aborted) throw error;
          screen.note('skipped');
          const later = walks.slice(walks.indexOf(walk) + 1);
          builds.dropAllBut(new Set([...later.flatMap(({ servers }) => servers), ...lastServers(options)]));
        }
      }
      keys[Symbol.dispose]();
      if (page !== undefined) await stay(stage, ground, operator, { startedAt, shown, page });
      else {
        if (await writeReport(ground)) screen.done('the page with all copies', REPORT);
        tryNext(screen);
      }
    } finally {
      if (ground.borrowed) allClean = await cleanUp(begun, { ...stage, until: untilOf(operator, undefined) });
    }
  } catch (error) {
    if (hasStarted || !ground.borrowed) throw error;
    const message = error instanceof Error ? error.message : String(error);
    const crdsGone = await deleteCrds(crds, cluster, screen);
    throw crdsGone ? new Error(`${message}\n  This cluster is as it was before.`, { cause: error }) : error;
  } finally {
    if (ground.borrowed && hasStarted) {
      const crdsGone = await deleteCrds(crds, cluster, screen);
      screen.blank();
      if ((await namespacesGone(cluster, screen)) && allClean && crdsGone) {
        screen.done('deleted all objects of the demo from this cluster');
      }
    }
  }
}

/**
 * The servers that are built later: those of the walks, then those for a reader who goes on after the walks.
 */
function laterServers(options: Options): ServerName[] {
  return [...options.walks.flatMap(({ servers }) => servers), ...lastServers(options)];
}

/** kube-controller-manager deletes namespaces. It is needed only if the demo shows all walks and goes on after them. */
function lastServers({ once, walks }: Options): ServerName[] {
  return once || walks.length < WALKS.length ? [] : ['kube-controller-manager'];
}

async function startOperator(ground: Ground, screen: Screen): Promise<OperatorProcess> {
  screen.progress('starting Keyferry');
  const startedAt = performance.now();
  const operator = await OperatorProcess.start(ground);
  screen.done('Keyferry is ready', `process ${operator.pid ?? '?'}, ${took(performance.now() - startedAt)}`);
  return operator;
}

function tryNext(screen: Screen): void {
  screen.title('What to try next');
  screen.blank();
  screen.note('With your own Secrets, step by step: docs/first-steps.md');
  screen.note('Manifests to begin with: examples/README.md. Instead of another program: docs/README.md');
}

async function stay(
  stage: Stage,
  ground: Ground,
  operator: OperatorProcess,
  { startedAt, shown, page }: { readonly startedAt: number; readonly shown: readonly Walk[]; readonly page: DemoPage },
): Promise<void> {
  const { screen, signal } = stage;
  for (const walk of shown) await walk.leave(stage);
  screen.title(`Your turn (${took(performance.now() - startedAt)} after the start)`);
  screen.blank();
  const again = shown.includes(mirrorsWalk) ? 'The demo has applied the mirror again. ' : '';
  screen.note(`${again}Everything keeps running:`);
  screen.blank();
  const url = await page.address(signal);
  screen.output([
    ...(url === undefined ? [] : [`page        ${url}`]),
    ...(ground.kubeconfigPath === undefined ? [] : [`kubeconfig  ${ground.kubeconfigPath}`]),
    `metrics     ${operator.statusUrl}/metrics`,
    `log         ${operator.logFile}`,
  ]);
  screen.blank();
  if (ground.kubeconfigPath !== undefined) screen.command(`export KUBECONFIG=${ground.kubeconfigPath}`);
  screen.command('kubectl get secretmirrors -A');
  screen.command('npx --no keyferry status');
  screen.command('npx --no keyferry ui');
  if (shown.includes(mirrorsWalk)) screen.command('kubectl create namespace project-a-mine');
  if (shown.includes(replicatorWalk)) screen.command('kubectl create namespace jx-mine');
  tryNext(screen);
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

/** Makes `Stage.until`. If Keyferry exits while this function waits, it throws an error. */
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

/**
 * Deletes the objects of the walks. If this fails for a walk, prints a warning and goes on with the next walk.
 * @returns whether all objects were deleted
 */
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

/**
 * Deletes the CRDs that the demo created. If this fails for a CRD, prints a warning and goes on with the next CRD.
 * @returns whether all CRDs were deleted
 */
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

/**
 * Waits until the namespaces of the demo are deleted, because the next demo creates namespaces with the same names.
 * @returns whether all namespaces are deleted
 */
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

/** The walks with these names. If a name is unknown: the text of the error. */
function chosen(names: readonly string[]): readonly Walk[] | string {
  const known = WALKS.map(({ name }) => name);
  const unknown = names.find((name) => !known.includes(name));
  if (unknown !== undefined) return `--only: there is no part "${unknown}"; the parts are ${known.join(', ')}`;
  return WALKS.filter(({ name }) => names.includes(name));
}

interface Flags {
  readonly once: boolean;
  readonly kubeconfig?: string;
  readonly context?: string;
  /** Names of walks, separated by commas. */
  readonly only?: string;
}

/** Reads the command line. After the help, exits with 0; after a usage error, with 2. */
function readOptions(): Flags {
  return new Command('npm run demo --')
    .description('run the examples on real servers on this machine, or on a test cluster')
    .option('--kubeconfig <path>', 'use this cluster (default: local servers that the demo starts)')
    .option('--context <name>', 'context of the kubeconfig (default: its current context)')
    .option('--once', 'exit after the last example instead of running until Ctrl-C', false)
    .option('--only <parts>', `show only these: ${WALKS.map(({ name }) => name).join(', ')}`)
    .helpOption('-h, --help', 'print help')
    .showHelpAfterError('Try `npm run demo -- --help`.')
    .addHelpText(
      'after',
      '\nExamples:\n  npm run demo -- --only mirrors,vault\n  npm run demo -- --once --kubeconfig ~/.kube/config',
    )
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : 2))
    .parse()
    .opts<Flags>();
}

async function main(): Promise<number> {
  const { once, kubeconfig, context, only } = readOptions();
  const screen = new Screen({ out: process.stdout, env: process.env });
  const stop = new AbortController();
  // Two signals for one Ctrl-C are normal: the terminal sends SIGINT to every process of the group, and npm repeats it.
  const onSignal = (): void => {
    if (stop.signal.aborted) return;
    stop.abort(new Error('stopped'));
    screen.blank();
    screen.progress('stopping');
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal).on('SIGHUP', onSignal);
  const walks = only === undefined ? WALKS : chosen(only.split(','));
  if (typeof walks === 'string') {
    screen.failure(`demo: ${walks}`);
    return 2;
  }
  // If stdout is not a terminal, the demo runs in a pipe or in the background, and nobody presses keys.
  using keys = new Keys(process.stdin, { enabled: process.stdout.isTTY, stop: onSignal });
  try {
    await demo({ once, kubeconfig, context, walks }, screen, keys, stop.signal);
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

// exit() does not wait for servers that were still starting when the demo was stopped. The reaper process stops them
// after this process.
process.exit(await main());
