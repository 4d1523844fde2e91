/**
 * Runs the real External Secrets Operator (ESO) for a control plane, with its controllers of ExternalSecrets and
 * stores, and its provider for Vault.
 */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';

import { waitFor } from '../support/wait-for.ts';
import type { ControlPlane } from './control-plane.ts';
import { ensureServer } from './ensure.ts';
import { Reaper } from './reaper.ts';
import { ServerProcess } from './server-process.ts';

export interface ExternalSecretsOptions {
  /** Time between two validations of a store, ms. Default: 5 minutes, as in ESO's chart. */
  readonly storeIntervalMs?: number;
}

/** The versions of ESO's API. */
export type EsoVersion = 'v1' | 'v1beta1';

/**
 * Installs ESO's CRDs.
 * @param change edits the YAML of the CRDs, to make them like the CRDs of other ESO releases
 */
export async function installEsoCrds(
  plane: Pick<ControlPlane, 'api'>,
  change: (yaml: string) => string = (yaml) => yaml,
  version: EsoVersion = 'v1',
): Promise<void> {
  await plane.api.apply(change(await esoCrds()));
  const path = `/apis/external-secrets.io/${version}`;
  for (const plural of ['externalsecrets', 'secretstores', 'clustersecretstores']) {
    await waitFor(async () => (await plane.api.raw('GET', `${path}/${plural}`)).status === 200, {
      message: `the API of ${plural}`,
    });
  }
}

/** The CRDs of ESO as YAML, from the release that go.mod pins. */
export async function esoCrds(): Promise<string> {
  const command = await ensureServer('external-secrets');
  const { stdout } = await promisify(execFile)(command, ['-crds'], { maxBuffer: 16 * 1024 * 1024 });
  return stdout;
}

/** Edits ESO's CRDs: they then serve v1beta1 and no longer v1. */
export function onlyV1beta1(yaml: string): string {
  const served = { true: 'false', false: 'true' };
  return yaml.replaceAll(/^ {4}served: (true|false)$/gm, (_, is: 'true' | 'false') => `    served: ${served[is]}`);
}

/** Starts ESO. The CRDs must be installed before. */
export async function startExternalSecrets(
  plane: Pick<ControlPlane, 'kubeconfigPath'>,
  { storeIntervalMs = 300_000 }: ExternalSecretsOptions = {},
): Promise<ServerProcess> {
  const command = await ensureServer('external-secrets');
  const folder = await Reaper.shared().temporaryFolder('keyferry-external-secrets-');
  return new ServerProcess({
    name: 'external-secrets',
    command,
    args: [`-store-requeue-interval=${storeIntervalMs}ms`],
    env: { KUBECONFIG: plane.kubeconfigPath },
    cwd: folder,
    logFile: path.join(folder, 'log'),
  });
}
