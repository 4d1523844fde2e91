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
 * Runs a command on a cluster, and prints what it returns.
 * @returns its exit code
 * @throws KubeconfigError if no cluster is configured, and the errors of the command; a connection error or 401 is wrapped with the
 * address of the server and its origin
 */
async function onCluster(
  { kubeconfig, context }: ClusterOptions,
  command: (context: CommandContext) => Promise<CommandResult>,
  signal = new AbortController().signal,
): Promise<number> {
  const [{ loadKubeconfig }, { HttpKubeApi }, { ConnectionError, isUnauthorized }] = await Promise.all([
    import('../kube/auth/kubeconfig.ts'),
    import('../kube/http.ts'),
    import('../kube/errors.ts'),
  ]);
  const connection = await loadKubeconfig({ path: kubeconfig, context, env: process.env });
  await using api = new HttpKubeApi(connection);
  using progress = new Progress(process.stderr, process.env['TERM']);
  try {
    const { text, code } = await command({
      api,
      cluster: connection.server.host,
      namespace: connection.namespace,
      paint: paintFor(process.stdout),
      progress,
      now: () => Date.now(),
      signal,
      stdin: readStdin,
      stdout,
      stderr,
    });
    progress.end();
    if (text !== '') stdout(text);
    return code;
  } catch (error) {
    if (!(error instanceof ConnectionError) && !isUnauthorized(error)) throw error;
    const { server, origin } = connection;
    throw new Error(`cannot use the cluster at ${server.origin} (${origin}): ${error.message}`, { cause: error });
  }
}

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
      status: async (options) => {
        const { status } = await import('../commands/status.ts');
        const show = async (signal?: AbortSignal): Promise<number> =>
          await onCluster(options, async (context) => await status(context, options), signal);
        // Without --watch a signal ends the process at once.
        return await (options.watch ? untilInterrupted(show) : show());
      },
      plan: async (options) => {
        const { planFiles } = await import('../commands/plan.ts');
        return await onCluster(options, async (context) => await planFiles(context, options));
      },
      explain: async (options) => {
        const { explain } = await import('../commands/explain.ts');
        return await onCluster(options, async (context) => await explain(context, options));
      },
      migrate: async (options) => {
        const { migrate } = await import('../commands/migrate.ts');
        return await onCluster(options, async (context) => await migrate(context, options));
      },
      demo: async (options) => {
        const { runDemo } = await import('./demo.ts');
        return await runDemo(options);
      },
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
