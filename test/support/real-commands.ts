/** Runs the commands of a page as its readers do: by a shell, with the real kubectl and Keyferry's bundle. */
import { execFile } from 'node:child_process';
import { symlink } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

import { ensureServer } from '../servers/ensure.ts';
import { Reaper } from '../servers/reaper.ts';
import { ensureBundle } from './bundle.ts';

const LAUNCHER = path.join(import.meta.dirname, '../../bin/keyferry.cjs');

/** Runs a script. Code 3, by which commands of Keyferry tell of a finding, is no failure. @throws Error with the output */
export type RunScript = (script: string) => Promise<{ readonly stdout: string; readonly code: number }>;

export async function realCommands(kubeconfigPath: string): Promise<RunScript> {
  await ensureBundle();
  const bin = await Reaper.shared().temporaryFolder('keyferry-bin-');
  await symlink(await ensureServer('kubectl'), path.join(bin, 'kubectl'));
  await symlink(LAUNCHER, path.join(bin, 'keyferry'));
  const env = { ...process.env, KUBECONFIG: kubeconfigPath, PATH: `${bin}:${process.env['PATH'] ?? ''}` };
  return async (script) => {
    try {
      return { ...(await promisify(execFile)('bash', ['-o', 'pipefail', '-ec', script], { env })), code: 0 };
    } catch (error) {
      const { stdout, stderr, code } = error as { stdout: string; stderr: string; code: number };
      if (code !== 3) throw new Error(`${script}\n${stdout}${stderr}`, { cause: error });
      return { stdout, code };
    }
  };
}
