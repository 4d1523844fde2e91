/** Entry of the bundle: the action of each command, and the exit code. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { Writable } from 'node:stream';
import { runCli } from './dispatch.ts';
import type { ClusterOptions } from '../commands/actions.ts';
import { Progress } from '../commands/output/progress.ts';
import { type Paint, paintFor } from '../commands/output/styles.ts';
import { BUILD } from '../config/version.ts';
import type { Connection } from '../kube/connection.ts';
import type { HttpKubeApi } from '../kube/http.ts';
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

/** What a command writes only on a terminal. */
function terminal(): { readonly paint: Paint; readonly progress: Progress } {
  return { paint: paintFor(process.stdout), progress: new Progress(process.stderr, process.env['TERM']) };
}

/**
 * Runs `work` with a connection to the cluster of a short command.
 * @throws KubeconfigError if no cluster is configured, and the errors of `work`; a connection error or 401 is wrapped with the
 * address of the server and its origin
 */
async function withCluster<T>(
  { kubeconfig, context }: ClusterOptions,
  work: (api: HttpKubeApi, connection: Connection) => Promise<T>,
): Promise<T> {
  const [{ loadKubeconfig }, { createKubeApi }, { ConnectionError, isUnauthorized }] = await Promise.all([
    import('../kube/auth/kubeconfig.ts'),
    import('../kube/http.ts'),
    import('../kube/errors.ts'),
  ]);
  const connection = await loadKubeconfig({ path: kubeconfig, context, env: process.env });
  await using api = createKubeApi(connection);
  try {
    return await work(api, connection);
  } catch (error) {
    if (!(error instanceof ConnectionError) && !isUnauthorized(error)) throw error;
    const { server, origin } = connection;
    throw new Error(`cannot use the cluster at ${server.origin} (${origin}): ${error.message}`, { cause: error });
  }
}

/** Runs `work` with a signal that is aborted when the process is told to end, or when the reader of its output has closed the pipe. */
async function untilInterrupted(work: (signal: AbortSignal) => Promise<void>): Promise<void> {
  const controller = new AbortController();
  const end = (): void => controller.abort();
  const ignoreSignals = onStopSignal(end);
  process.stdout.once('error', end);
  try {
    await work(controller.signal);
  } finally {
    ignoreSignals();
    process.stdout.off('error', end);
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
        await withCluster(options, async (api, { server }) => {
          const show = async (signal: AbortSignal): Promise<void> =>
            await status(server.host, options, { ...terminal(), api, now: () => Date.now(), signal, stdout, stderr });
          // Without --watch a signal ends the process at once.
          await (options.watch ? untilInterrupted(show) : show(new AbortController().signal));
        });
        return 0;
      },
      plan: async (options) => {
        const { planFiles } = await import('../commands/plan.ts');
        const { text, code } = await withCluster(options, async (api, { namespace }) => {
          const context = { ...terminal(), api, namespace, stdin: readStdin, now: Date.now() };
          return await planFiles(context, options);
        });
        stdout(text);
        return code;
      },
      explain: async (options) => {
        const { explain } = await import('../commands/explain.ts');
        stdout(
          await withCluster(options, async (api, { server }) => {
            return await explain(api, server.host, options, { ...terminal(), now: Date.now() });
          }),
        );
        return 0;
      },
      migrate: async (options) => {
        const { migrate } = await import('../commands/migrate.ts');
        const { text, code } = await withCluster(options, async (api, { server }) => {
          return await migrate(server.host, options, { ...terminal(), api, stderr, now: Date.now() });
        });
        stdout(text);
        return code;
      },
      demo: async (options) => {
        const { runDemo } = await import('./demo.ts');
        return await runDemo(options);
      },
    },
    startedAs: [process.argv[1] ?? '', process.argv0],
    processInfo: { env: process.env, hostname: hostname(), uniqueId: randomUUID() },
    build: BUILD,
    stdout,
    stderr,
  },
  process.argv.slice(2),
).then((code) => {
  process.exitCode = code;
  return code;
});
