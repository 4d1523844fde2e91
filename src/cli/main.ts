/** Entry of the bundle: the action of each command, and the exit code. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { runCli } from './dispatch.ts';
import { writerTo } from './pipes.ts';
import { Progress } from '../commands/output/progress.ts';
import { type Paint, paintFor } from '../commands/output/styles.ts';
import { BUILD } from '../config/version.ts';

// Node 24 cuts small buffers from slabs of 64 KiB, and one that is still used keeps its whole slab. Requests, and lines of watches, that
// outlive a collection of the young generation held 1.5 MiB more in that way while 500 SyncSecrets were copied.
Buffer.poolSize = 8 * 1024;

async function readStdin(): Promise<string> {
  const { text } = await import('node:stream/consumers');
  return await text(process.stdin);
}

/** What a command writes only on a terminal. */
function terminal(): { readonly paint: Paint; readonly progress: Progress } {
  return { paint: paintFor(process.stdout), progress: new Progress(process.stderr, process.env['TERM']) };
}

const stdout = writerTo(process.stdout);
const stderr = writerTo(process.stderr);

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
        const [{ withCluster }, { status }, { Interruption }] = await Promise.all([
          import('./with-cluster.ts'),
          import('../commands/status.ts'),
          import('./interruption.ts'),
        ]);
        await withCluster(options, process.env, async (api, { server }) => {
          // Without --watch a signal ends the process at once.
          using interruption = options.watch ? new Interruption() : undefined;
          const signal = interruption?.signal ?? new AbortController().signal;
          const context = { ...terminal(), api, now: () => Date.now(), signal, stdout, stderr };
          await status(server.host, options, context);
        });
        return 0;
      },
      plan: async (options) => {
        const [{ withCluster }, { planFiles }] = await Promise.all([
          import('./with-cluster.ts'),
          import('../commands/plan.ts'),
        ]);
        const { text, code } = await withCluster(options, process.env, async (api, { namespace }) => {
          const context = { ...terminal(), api, namespace, stdin: readStdin, now: Date.now() };
          return await planFiles(context, options);
        });
        stdout(text);
        return code;
      },
      explain: async (options) => {
        const [{ withCluster }, { explain }] = await Promise.all([
          import('./with-cluster.ts'),
          import('../commands/explain.ts'),
        ]);
        stdout(
          await withCluster(options, process.env, async (api, { server }) => {
            return await explain(api, server.host, options, { ...terminal(), now: Date.now() });
          }),
        );
        return 0;
      },
      migrate: async (options) => {
        const [{ withCluster }, { migrate }] = await Promise.all([
          import('./with-cluster.ts'),
          import('../commands/migrate.ts'),
        ]);
        const { text, code } = await withCluster(options, process.env, async (api, { server }) => {
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
