/**
 * Runs the command lines of README and docs with the real kubectl, Helm and kustomize, on a cluster in which Keyferry
 * runs. The test runs every `sh` block, page by page. The fence of a block gives the reason if a command cannot run
 * here. Other tests run the commands that need Pods (test/scenarios/pods/more/pages.test.ts) and the pages about other
 * programs (test/scenarios/migrate/more/pages.test.ts).
 */
import { execFile } from 'node:child_process';
import { globSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { stringify } from 'yaml';

import { type ControlPlane, startControlPlane } from '../../../servers/control-plane.ts';
import { Reaper } from '../../../servers/reaper.ts';
import { Keyferry } from '../../../support/keyferry.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { mirror, namespace, secret } from '../../cli/objects.ts';
import { mayEndWith, programFolder, replaced, shellBlocks } from '../blocks.ts';

const ROOT = path.join(import.meta.dirname, '../../../..');
/**
 * README.md and docs. Pages that use Helm come first, because Helm refuses objects that `kubectl apply` has created.
 */
const PAGES = [
  ...new Set([
    'README.md',
    'docs/many-teams.md',
    'docs/install.md',
    ...globSync(['docs/*.md', 'docs/{runbook,reference}/*.md'], { cwd: ROOT }).toSorted(),
  ]),
].filter((page) => !page.includes('migrate-from-'));
const TIMEOUT_MS = 60_000;

/**
 * Marks a command that fails on purpose. The test repeats the command until the API server applies a new policy. So the
 * command must change nothing.
 */
const REFUSED = / # (refused|not found: excluded)$/;
/** What kubectl prints for a command that fails on purpose: a policy denies it, or the object does not exist. */
const REFUSAL = /ValidatingAdmissionPolicy '.+' .*denied request|\(NotFound\)/;

const resources = new AsyncDisposableStack();
let plane: ControlPlane;
let folder: string;
let env: NodeJS.ProcessEnv;

before(async () => {
  plane = await startControlPlane({ controllerManager: false, own: true });
  resources.defer(() => plane.stop());
  folder = await Reaper.shared().temporaryFolder('keyferry-docs-');
  const bin = await programFolder(folder);
  await symlink(path.join(ROOT, 'deploy'), path.join(folder, 'deploy'));
  env = { ...process.env, KUBECONFIG: plane.kubeconfigPath, HOME: folder, PATH: `${bin}:${process.env['PATH'] ?? ''}` };
  // Pages install and uninstall the chart. The CRDs of the cluster stay meanwhile.
  await run([
    'helm install keyferry deploy/helm/keyferry -n keyferry --create-namespace --set image.repository=keyferry',
    'helm uninstall keyferry -n keyferry',
  ]);
  await plane.api.apply([
    ...['team-a', 'team-b', 'tenant-docs'].map((name) => namespace(name)),
    secret('default', 'mysecret', 'generalkenobi'),
    mirror('mysecret-mirror', 'mysecret', ['team-.*']),
  ]);
  const shown = stringify(mirror('mysecret-mirror', 'mysecret', ['team-.*']));
  await mkdir(path.join(folder, 'manifests'));
  for (const file of ['mirror.yaml', 'manifests/mirror.yaml']) await writeFile(path.join(folder, file), shown);
  await writeFile(path.join(folder, 'kustomization.yaml'), stringify({ resources: ['mirror.yaml'] }));
  const args = ['--leader-elect', '--leader-elect-namespace=keyferry'];
  const keyferry = resources.use(await Keyferry.start({ kubeconfig: plane.kubeconfigPath, args }));
  await keyferry.ready();
  await waitFor(async () => await plane.api.find('/api/v1/namespaces/team-a/secrets/mysecret'), { message: 'a copy' });
});
after(() => resources.disposeAsync());

async function run(commands: readonly string[]): Promise<void> {
  if (commands.length === 0) return;
  const script = replaced(commands.join('\n'));
  try {
    await promisify(execFile)('bash', ['-o', 'pipefail', '-ec', script], {
      env,
      cwd: folder,
      timeout: TIMEOUT_MS,
      // A timeout kills with SIGKILL. After SIGTERM Keyferry would exit with 0, and the timeout would look like
      // success.
      killSignal: 'SIGKILL',
    });
  } catch (error) {
    const { code, signal, stdout, stderr } = error as Record<'code' | 'signal' | 'stdout' | 'stderr', unknown>;
    if (commands.length === 1 && mayEndWith(code, script)) return;
    throw new Error(`${script}\nended with ${String(code ?? signal)}:\n${String(stdout)}${String(stderr)}`, {
      cause: error,
    });
  }
}

/** Repeats the commands until they fail with the text of a refusal. */
async function refused(commands: readonly string[]): Promise<void> {
  let last: unknown;
  await waitFor(
    async () => {
      last = await run(commands).catch((error: unknown) => error);
      return REFUSAL.test(String(last));
    },
    { intervalMs: 200, message: () => `a refusal of ${commands.join('\n')}, not ${String(last)}` },
  );
}

for (const page of PAGES) {
  const blocks = shellBlocks(page);
  if (blocks.length === 0) continue;
  describe(page, () => {
    for (const [index, { heading, text, commands: commandsOf }] of blocks.entries()) {
      it(`the commands of ${page}, section "${heading}", block ${index + 1}, run as the page says`, async () => {
        const commands = commandsOf();
        // Commands that share shell variables run together. Other commands run one at a time, so that a search without
        // a result ends only itself.
        const groups = text.includes('$(') ? [commands] : commands.map((command) => [command]);
        for (const group of groups) await (REFUSED.test(group.join('\n')) ? refused(group) : run(group));
        // Each block that installs a release needs a cluster without a release.
        if (/helm (install|upgrade --install) /.test(text)) await run(['helm uninstall keyferry -n keyferry']);
      });
    }
  });
}
