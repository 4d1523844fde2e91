/** Runs `keyferry ui` as a user does, and opens its page. */
import path from 'node:path';

import type { Browser, Tab } from '../../support/browser.ts';
import { ensureBundle } from '../../support/bundle.ts';
import type { ControlPlane } from '../../servers/control-plane.ts';
import { waitFor } from '../../support/wait-for.ts';
import { RunningProgram } from '../cli/program.ts';

const LAUNCHER = path.join(import.meta.dirname, '../../../bin/keyferry.cjs');
export const TENANT = 'tenant';

export interface RunningPage extends AsyncDisposable {
  /** `http://127.0.0.1:PORT` */
  readonly origin: string;
  /** With the code that was printed. */
  readonly url: string;
  readonly program: RunningProgram;
}

export async function startPage(kubeconfig: string, ...args: readonly string[]): Promise<RunningPage> {
  await ensureBundle();
  const program = new RunningProgram(['ui', '--open=false', '--kubeconfig', kubeconfig, ...args], LAUNCHER);
  try {
    await program.seen('stdout', /#code=\S+\n/);
  } catch (error) {
    await program[Symbol.asyncDispose]();
    throw error;
  }
  const url = /http:\S+/.exec(program.stdout)?.[0] ?? '';
  return {
    origin: new URL(url).origin,
    url,
    program,
    [Symbol.asyncDispose]: async () => await program[Symbol.asyncDispose](),
  };
}

/** A tab in which the page has its data. */
export async function openPage(
  browser: Browser,
  { url }: RunningPage,
  size?: { width: number; height: number },
  scheme?: 'light' | 'dark',
): Promise<Tab> {
  const tab = await browser.open(url, size, scheme);
  await tab.sees(/● live/);
  return tab;
}

/** A kubeconfig of the user `TENANT`, who may list and watch Secrets and SecretMirrors in the namespace `default` alone. */
export async function tenantKubeconfig(plane: ControlPlane): Promise<string> {
  const rules = [
    { apiGroups: [''], resources: ['secrets'], verbs: ['get', 'list', 'watch'] },
    { apiGroups: ['mirrors.kts.studio'], resources: ['secretmirrors'], verbs: ['list', 'watch'] },
  ];
  const apiGroup = 'rbac.authorization.k8s.io';
  const rbac = { apiVersion: `${apiGroup}/v1`, metadata: { name: 'look', namespace: 'default' } };
  await plane.api.create({ ...rbac, kind: 'Role', rules });
  const subjects = [{ apiGroup, kind: 'User', name: TENANT }];
  await plane.api.create({
    ...rbac,
    kind: 'RoleBinding',
    roleRef: { apiGroup, kind: 'Role', name: 'look' },
    subjects,
  });
  using tenant = plane.client({ token: plane.tokenFor(TENANT) });
  const isBound = async () => (await tenant.raw('GET', '/api/v1/namespaces/default/secrets')).status === 200;
  await waitFor(isBound, { message: 'the rights to be in force' });
  return await plane.writeKubeconfig({ token: plane.tokenFor(TENANT) });
}
