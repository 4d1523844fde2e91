/** Entry of the bundle: gives each command its action, and sets the exit code. */
import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import type { Writable } from 'node:stream';
import { runCli } from './dispatch.ts';
import type { ClusterOptions } from '../commands/actions.ts';
import { paintFor, Progress } from '../commands/output/terminal.ts';
import type { CommandContext, CommandResult } from '../commands/output/reading.ts';
import { BUILD } from '../config/version.ts';
import { onStopSignal } from '../operator/stop-signals.ts';

// Node 24 cuts small buffers from slabs of 64 KiB, and a used buffer keeps its whole slab alive. With requests and
// watch lines that live long, this took 1.5 MiB more while 500 SyncSecrets were copied.
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

/** Aborts the signal of `work` at a stop signal, or when the reader of the output closes the pipe. */
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
 * Makes the action of a command that reads a cluster: it loads the command's code on demand, and prints the result.
 * @returns a function that resolves to the exit code. It rejects with KubeconfigError if no cluster is configured, and
 * with the command's errors. A connection error or 401 gets the server's address, and the origin of the address
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
    using progress = new Progress(process.stderr, process.env['TERM']);
    const cluster = { api, cluster: server.host, namespace, now: () => Date.now(), signal };
    const terminal = { paint: paintFor(process.stdout), progress, stdin: readStdin, stdout, stderr };
    try {
      const { text, code } = await command({ ...cluster, ...terminal }, options);
      progress.end();
      if (text !== '') stdout(text);
      return code;
    } catch (error) {
      if (!(error instanceof ConnectionError) && !isUnauthorized(error)) throw error;
      throw new Error(`cannot use the cluster at ${server.origin} (${origin}): ${error.message}`, { cause: error });
    }
  };
}

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
      // Without --watch, a signal ends the process at once, as is Node's default.
      status: async (options) =>
        await (options.watch
          ? untilInterrupted(async (signal) => await showStatus(options, signal))
          : showStatus(options)),
      plan: onCluster(async () => (await import('../commands/plan.ts')).planFiles),
      explain: onCluster(async () => (await import('../commands/explain.ts')).explain),
      migrate: onCluster(async () => (await import('../commands/migrate.ts')).migrate),
    },
    startedAs: [process.argv[1] ?? '', process.argv0],
    processInfo: { env: process.env, hostname: hostname(), uniqueId: randomUUID(), pid: process.pid },
    // Some systems lack this file, and some users may not read it.
    firstProcess: () => readFile('/proc/1/cmdline', 'utf8').catch(() => ''),
    build: BUILD,
    stdout,
    stderr,
  },
  process.argv.slice(2),
).then((code) => {
  process.exitCode = code;
  return code;
});
