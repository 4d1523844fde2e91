/** Entry of the bundle: the action of each command, and the exit code. */
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

// Node 24 cuts small buffers from slabs of 64 KiB, and one that is still used keeps its whole slab. Requests, and lines of watches, that
// outlive a collection of the young generation held 1.5 MiB more in that way while 500 SyncSecrets were copied.
Buffer.poolSize = 8 * 1024;

/**
 * A function that writes text to a stream. After the reader has closed the pipe (`keyferry status | head -1`), output is dropped without an
 * error, and the command keeps its exit code. Other errors of the stream are uncaught errors.
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

/** Runs `work` with a signal that is aborted when the process is told to end, or when the reader of its output has closed the pipe. */
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
 * The action of a command that reads a cluster: loads its code on demand, and prints what the command returns.
 * @returns resolves to its exit code. Rejects with KubeconfigError if no cluster is configured, and with the errors of the command. A connection
 * error or 401 is wrapped with the address of the server and its origin
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
      // Without --watch a signal ends the process at once.
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
    // Not every system has this file, and not everybody may read it.
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
