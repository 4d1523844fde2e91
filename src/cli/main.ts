/** Entry of the bundle: what each command does, and the exit code. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import type { DaemonAction } from './actions.ts';
import { runCli } from './dispatch.ts';
import { VERSION } from './version.ts';

const daemon: DaemonAction = async (config) => {
  const { run } = await import('./run.ts');
  return await run(config, process.env);
};

const stdout = (text: string): void => void process.stdout.write(text);
const stderr = (text: string): void => void process.stderr.write(text);

void runCli(
  {
    actions: {
      run: daemon,
      mirrors: daemon,
      replicator: daemon,
      crds: async () => {
        const { crds } = await import('./crds.ts');
        stdout(crds());
        return 0;
      },
      demo: async (options) => {
        const { runDemo } = await import('./demo.ts');
        return await runDemo(options);
      },
    },
    surroundings: { env: process.env, hostname: hostname(), uniqueId: randomUUID() },
    version: VERSION,
    stdout,
    stderr,
  },
  process.argv.slice(2),
).then((code) => {
  process.exitCode = code;
  return code;
});
