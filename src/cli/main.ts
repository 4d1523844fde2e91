/** Where the bundle starts. It gives each command the function that does its work, and sets the exit code. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Writable } from 'node:stream';
import { runCli } from './program.ts';
import type { ClusterOptions } from '../commands/actions.ts';
import { paintFor } from '../commands/output/terminal.ts';
import type { CommandContext, CommandResult } from '../commands/output/reading.ts';
import { BUILD } from '../config/version.ts';
import { onStopSignal } from '../operator/stop-signals.ts';

// Node 24 cuts small buffers from slabs of 64 KiB, and one used buffer keeps its whole slab in memory. While 500
// SyncSecrets were copied, requests and watch lines kept 1.5 MiB more with slabs of that size.
Buffer.poolSize = 8 * 1024;

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

const stdout = writerTo(process.stdout);
const stderr = writerTo(process.stderr);

async function readStdin(): Promise<string> {
  const { text } = await import('node:stream/consumers');
  return await text(process.stdin);
}

/**
 * Aborts the signal of `work` when the process gets a stop signal, or when the reader of the output closes the pipe.
 */
async function untilInterrupted<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const end = (): void => controller.abort();
  const ignoreSignals = onStopSignal(end);
  process.stdout.once('error', end);
  try {
    return await work(controller.signal);
  } finally {
    ignoreSignals();
    process.stdout.off('error', end);
  }
}

/**
 * Makes the action of a command that reads a cluster. It loads the command's code, runs it and prints the result.
 * @returns a function that resolves to the exit code. It rejects with KubeconfigError if no cluster is configured, and
 * with the command's errors. For a connection error or 401, the message names the server and where its address is from
 */
function onCluster<Options extends ClusterOptions>(
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
    const { columns } = process.stdout;
    const terminal = { paint: paintFor(process.stdout), columns, stdin: readStdin, stdout, stderr };
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

const showPage = onCluster(async () => (await import('../commands/ui.ts')).ui);
const showStatus = onCluster(async () => (await import('../commands/status.ts')).status);

void runCli(
  {
    actions: {
      run: async (config) => {
        const { run } = await import('../operator/run.ts');
        return await run(config, process.env);
      },
      crds: async () => {
        const { crds } = await import('../commands/crds.ts');
        stdout(crds());
        return 0;
      },
      // Without --watch, a stop signal ends the process at once: this is Node's default.
      status: async (options) =>
        await (options.watch
          ? untilInterrupted(async (signal) => await showStatus(options, signal))
          : showStatus(options)),
      plan: onCluster(async () => (await import('../commands/plan.ts')).planFiles),
      explain: onCluster(async () => (await import('../commands/explain.ts')).explain),
      complete: async (wanted) => await (await import('../commands/complete.ts')).complete(wanted, process.env),
      ui: async (options) => await untilInterrupted(async (signal) => await showPage(options, signal)),
    },
    startedAs: [process.argv[1] ?? '', process.argv0],
    processInfo: { env: process.env, hostname: hostname(), uniqueId: randomUUID() },
    build: BUILD,
    columns: process.stdout.columns,
    stdout,
    stderr,
  },
  process.argv.slice(2),
).then((code) => {
  process.exitCode = code;
  return code;
});
