/** The connection of a Pod to the cluster it runs in: the service account's token and CA, which the kubelet renews. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, systemClock } from '../../runtime/clock.ts';
import type { Connection } from '../connection.ts';
import { RenewingCredentials } from './credentials.ts';
import { FileValue } from './file-value.ts';

export const SERVICE_ACCOUNT_DIR = '/var/run/secrets/kubernetes.io/serviceaccount';

export interface InClusterOptions {
  /** `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The cluster's name in logs and metrics. Default `local`. */
  readonly cluster?: string;
  /** Default `SERVICE_ACCOUNT_DIR`. */
  readonly dir?: string;
  readonly clock?: Clock;
}

/** @returns `undefined` outside of a Pod (no `KUBERNETES_SERVICE_HOST`). The token is read with the first call. */
export async function inClusterConnection(options: InClusterOptions): Promise<Connection | undefined> {
  const host = options.env['KUBERNETES_SERVICE_HOST'];
  const port = options.env['KUBERNETES_SERVICE_PORT'];
  if (host === undefined || host === '' || port === undefined || port === '') return undefined;
  const dir = options.dir ?? SERVICE_ACCOUNT_DIR;
  const clock = options.clock ?? systemClock;
  return {
    cluster: options.cluster ?? 'local',
    server: new URL(`https://${host.includes(':') ? `[${host}]` : host}:${port}`),
    credentials: new RenewingCredentials({
      tokenFile: new FileValue(join(dir, 'token'), 'in-cluster token', clock),
      ca: new FileValue(join(dir, 'ca.crt'), 'in-cluster CA', clock),
    }),
    namespace: await namespaceIn(dir),
    origin: 'in-cluster',
  };
}

async function namespaceIn(dir: string): Promise<string> {
  try {
    const name = (await readFile(join(dir, 'namespace'), 'utf8')).trim();
    return name === '' ? 'default' : name;
  } catch (error) {
    // A projected volume may not have it; a flag sets another namespace than `default`.
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return 'default';
    throw error;
  }
}
