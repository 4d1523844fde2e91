/** Gives each command the function that does its work. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { runCli } from './program.ts';
import type { Actions, CliContext, ClusterOptions, ExitCode } from '../commands/actions.ts';
import { paintFor } from '../commands/output/terminal.ts';
import type { CommandContext, CommandResult } from '../commands/output/reading.ts';
import { BUILD } from '../config/version.ts';
import { onStopSignal } from '../operator/stop-signals.ts';

/** What a command reads and writes: the process, or the streams of a test. */
interface Streams {
  readonly stdin: Readable;
  /** Only a terminal has columns and colors. */
  readonly stdout: Writable & { readonly columns?: number; readonly hasColors?: () => boolean };
  readonly stderr: Writable;
}

/**
 * Makes a function that writes text to a stream. When the reader closes the pipe (`keyferry status | head -1`), later
 * output is dropped without an error, and the exit code stays. Other errors of the stream are uncaught errors.
 */
function writerTo(stream: Writable): (text: string) => void {
  let isOpen = true;
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
    isOpen = false;
  });
  return (text) => {
    if (isOpen) stream.write(text);
  };
}

/**
 * Aborts the signal of `work` when the process gets a stop signal, or when the reader of the output closes the pipe.
 */
async function untilInterrupted<T>(
  { stdout }: Pick<Streams, 'stdout'>,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const end = (): void => controller.abort();
  const ignoreSignals = onStopSignal(end);
  stdout.once('error', end);
  try {
    return await work(controller.signal);
  } finally {
    ignoreSignals();
    stdout.off('error', end);
  }
}

/**
 * Makes the action of a command that reads a cluster. It loads the command's code, runs it and prints the result.
 * @returns a function that resolves to the exit code. It rejects with KubeconfigError if no cluster is configured, and
 * with the command's errors. For a connection error or 401, the message names the server and where its address is from
 */
function onCluster<Options extends ClusterOptions>(
  streams: Streams,
  { stdout, stderr }: Pick<CliContext, 'stdout' | 'stderr'>,
  load: () => Promise<(context: CommandContext, options: Options) => Promise<CommandResult>>,
): (options: Options, signal?: AbortSignal) => Promise<number> {
  return async (options, signal = new AbortController().signal) => {
    const [command, { loadKubeconfig }, { HttpKubeApi }, { ConnectionError, isUnauthorized }] = await Promise.all([
      load(),
      import('../kube/auth/kubeconfig.ts'),
      import('../kube/http.ts'),
      import('../kube/errors.ts'),
    ]);
    const { kubeconfig: path, context } = options;
    const connection = await loadKubeconfig({ path, context, env: process.env });
    const { server, origin, namespace } = connection;
    await using api = new HttpKubeApi(connection);
    const cluster = { api, cluster: server.host, namespace, now: () => Date.now(), signal };
    const { columns } = streams.stdout;
    const stdin = async (): Promise<string> => (await import('node:stream/consumers')).text(streams.stdin);
    const terminal = { paint: paintFor(streams.stdout), columns, stdin, stdout, stderr };
    try {
      const { text, code } = await command({ ...cluster, ...terminal }, options);
      if (text !== '') stdout(text);
      return code;
    } catch (error) {
      if (!(error instanceof ConnectionError) && !isUnauthorized(error)) throw error;
      throw new Error(`cannot use the cluster at ${server.origin} (${origin}): ${error.message}`, { cause: error });
    }
  };
}

/**
 * Runs one command line.
 * @param startedAs the path and the name that Keyferry was started with
 * @returns the exit code. Never throws: errors are printed
 */
export async function runCommandLine(
  args: readonly string[],
  streams: Streams,
  startedAs: CliContext['startedAs'],
): Promise<ExitCode> {
  const writers = { stdout: writerTo(streams.stdout), stderr: writerTo(streams.stderr) };
  const showPage = onCluster(streams, writers, async () => (await import('../commands/ui.ts')).ui);
  const showStatus = onCluster(streams, writers, async () => (await import('../commands/status.ts')).status);
  const actions: Actions = {
    run: async (config) => {
      const { run } = await import('../operator/run.ts');
      return await run(config, process.env);
    },
    crds: async () => {
      const { crds } = await import('../commands/crds.ts');
      writers.stdout(crds());
      return 0;
    },
    // Without --watch, a stop signal ends the process at once: this is Node's default.
    status: async (options) =>
      await (options.watch
        ? untilInterrupted(streams, async (signal) => await showStatus(options, signal))
        : showStatus(options)),
    plan: onCluster(streams, writers, async () => (await import('../commands/plan.ts')).planFiles),
    explain: onCluster(streams, writers, async () => (await import('../commands/explain.ts')).explain),
    complete: async (wanted) => await (await import('../commands/complete.ts')).complete(wanted, process.env),
    ui: async (options) => await untilInterrupted(streams, async (signal) => await showPage(options, signal)),
  };
  const processInfo = { env: process.env, hostname: hostname(), uniqueId: randomUUID() };
  const context = { actions, startedAs, processInfo, build: BUILD, columns: streams.stdout.columns, ...writers };
  return await runCli(context, args);
}
