/**
 * The command lines of README and docs, with the real kubectl, Helm and kustomize, on a cluster in which Keyferry runs. The test runs every `sh`
 * block, page by page. The fence of a block names the reason why a command cannot be run here. The pages on other programs have a test of their
 * own (test/scenarios/migrate/pages.test.ts).
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { stringify } from 'yaml';

import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import { ensureServer } from '../../servers/ensure.ts';
import { Reaper } from '../../servers/reaper.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { codeBlocks } from '../../support/markdown.ts';
import { waitFor } from '../../support/wait-for.ts';
import { mirror, namespace, secret } from '../cli/objects.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
/** Helm first: it refuses objects that somebody has applied. Two pages end with Helm, and install.md with `kubectl apply`. */
const PAGES = [
  ...new Set([
    'README.md',
    'docs/many-teams.md',
    'docs/install.md',
    ...globSync(['docs/*.md', 'docs/runbook/*.md'], { cwd: ROOT }).toSorted(),
  ]),
].filter((page) => !page.includes('migrate-from-'));
const TIMEOUT_MS = 60_000;

/**
 * Commands that cannot run here, by the reason that the fence of their block names: `sh norun=no-pods,endless`. The other commands of such a block run.
 */
const NOT_RUN: Readonly<Record<string, RegExp>> = {
  /** The test is in the checkout. */
  checkout: /^git clone|^npm ci$/,
  /** It starts servers of its own: test/scenarios/demo.test.ts. */
  demo: /^npx keyferry demo|^npm run demo/,
  /** They run until a signal; other tests start them. */
  endless: /^npx keyferry (run|generator|syncsecret-)|^keyferry status -w/,
  /** No Pod runs in the cluster, and a curl needs the port-forward before it. */
  'no-pods': /^kubectl (-n \S+ )?(logs|top|port-forward)| POD\b|^curl /,
  /** The blocks after it need what it deletes: test/scenarios/chart. */
  undo: /^kubectl delete -f deploy\/keyferry\.yaml$/,
  /** Not every machine has them; src/cli/completion tests the scripts. */
  'no-shell': /^keyferry completion (zsh|fish)/,
  /** They read the audit log of an API server: test/scenarios/docs/audit.test.ts. */
  audit: /^jq /,
  /** No tenant has SyncSecrets here. */
  'no-syncsecrets': /^kubectl get syncsecrets -A -o json \| kubectl replace/,
  /** No release is published. */
  'no-release': /^(cosign|gh|npm audit) /,
  /** Vault's own program, for a server of the reader. */
  'no-vault': /^vault /,
};
/** What a reader replaces. */
const REPLACED: readonly (readonly [RegExp, string])[] = [
  [/TARGET-NAMESPACE\/NAME/g, 'team-a/mysecret'],
  [/NAMESPACE\/NAME/g, 'default/mysecret'],
  [/tenant-NAME/g, 'tenant-docs'],
  [/-n NAMESPACE/g, '-n default'],
  [/\bNAME\b/g, 'mysecret-mirror'],
  [/\bFILE\b/g, 'management.kubeconfig'],
];
/** A search that finds nothing, and what `plan` and `migrate` exit with if there is something to decide. */
const OTHER_CODES: readonly (readonly [RegExp, number])[] = [
  [/\| grep /, 1],
  [/keyferry (plan|migrate)|\| keyferry plan/, 3],
];
/** The mark of a command that the page shows because it fails. A new policy takes a moment, so such a command must change nothing. */
const REFUSED = / # refused$/;
/** What kubectl says then: a policy denies it, or there is no such object. */
const REFUSAL = /ValidatingAdmissionPolicy '.+' .*denied request|\(NotFound\)/;

const resources = new AsyncDisposableStack();
let plane: ControlPlane;
let folder: string;
let env: NodeJS.ProcessEnv;

before(async () => {
  plane = await startControlPlane({ controllerManager: false });
  resources.defer(() => plane.stop());
  folder = await Reaper.shared().temporaryFolder('keyferry-docs-');
  const bin = path.join(folder, 'bin');
  await mkdir(bin);
  for (const name of ['kubectl', 'helm', 'kustomize'] as const) {
    await symlink(await ensureServer(name), path.join(bin, name));
  }
  await symlink(path.join(ROOT, 'bin/keyferry.cjs'), path.join(bin, 'keyferry'));
  // In a checkout, npx finds keyferry.
  await writeFile(path.join(bin, 'npx'), '#!/bin/sh\nexec "$@"\n');
  await chmod(path.join(bin, 'npx'), 0o755);
  await symlink(path.join(ROOT, 'deploy'), path.join(folder, 'deploy'));
  env = { ...process.env, KUBECONFIG: plane.kubeconfigPath, HOME: folder, PATH: `${bin}:${process.env['PATH'] ?? ''}` };
  // The CRDs stay, as those of a release.
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

/** The commands of a block. Lines of one command stay together. */
function commandsIn(block: string): string[] {
  const commands: string[] = [];
  for (const line of block.split('\n')) {
    const last = commands.at(-1)?.trimEnd() ?? '';
    const isInText = last.includes("<<'EOF'") && !last.endsWith('\nEOF');
    const isContinued = isInText || /\\$|\|$|; do$/.test(last) || /^\s/.test(line);
    if (isContinued && commands.length > 0) commands[commands.length - 1] += `\n${line}`;
    else commands.push(line);
  }
  return joined(commands).filter((command) => command.trim() !== '');
}

/**
 * Those that can run.
 * @throws Error for a reason that this test does not know, or that no command of the block needs
 */
function runnable(commands: readonly string[], mark: string): string[] {
  if (mark === '') return [...commands];
  assert.match(mark, /^norun=/, 'a block has no other mark');
  const patterns = mark
    .slice('norun='.length)
    .split(',')
    .map((reason) => {
      const pattern = NOT_RUN[reason];
      assert.ok(pattern, `"${reason}" is none of the reasons ${Object.keys(NOT_RUN).join(', ')}`);
      assert.ok(
        commands.some((command) => pattern.test(command)),
        `no command of the block needs "${reason}"`,
      );
      return pattern;
    });
  return commands.filter((command) => !patterns.some((pattern) => pattern.test(command)));
}

/** A loop and its end are one command. */
function joined(commands: readonly string[]): string[] {
  const result: string[] = [];
  for (const command of commands) {
    if (/^(done|fi)\b/.test(command)) result.push(`${result.pop() ?? ''}\n${command}`);
    else result.push(command);
  }
  return result;
}

async function run(commands: readonly string[]): Promise<void> {
  if (commands.length === 0) return;
  const script = REPLACED.reduce((text, [from, to]) => text.replaceAll(from, to), commands.join('\n'));
  try {
    await promisify(execFile)('bash', ['-o', 'pipefail', '-ec', script], {
      env,
      cwd: folder,
      timeout: TIMEOUT_MS,
      // After SIGTERM Keyferry ends with 0, as if the command had ended by itself.
      killSignal: 'SIGKILL',
    });
  } catch (error) {
    const { code, signal, stdout, stderr } = error as Record<'code' | 'signal' | 'stdout' | 'stderr', unknown>;
    if (commands.length === 1 && OTHER_CODES.some(([pattern, allowed]) => code === allowed && pattern.test(script)))
      return;
    throw new Error(`${script}\nended with ${String(code ?? signal)}:\n${String(stdout)}${String(stderr)}`, {
      cause: error,
    });
  }
}

/** Runs a command until it fails as the page says. */
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

/** Indented in a list. */
function unindented(text: string): string {
  const indent = /^ */.exec(text)?.[0] ?? '';
  return text
    .split('\n')
    .map((line) => (line.startsWith(indent) ? line.slice(indent.length) : line))
    .join('\n');
}

for (const page of PAGES) {
  const blocks = codeBlocks(readFileSync(path.join(ROOT, page), 'utf8')).filter(({ language }) => language === 'sh');
  if (blocks.length === 0) continue;
  describe(page, () => {
    for (const [index, { heading, mark, text }] of blocks.entries()) {
      it(`${heading}, block ${index + 1}`, async () => {
        const commands = runnable(commandsIn(unindented(text)), mark);
        // Variables of one command are used in the next one. A search that finds nothing must not end the others.
        const groups = text.includes('$(') ? [commands] : commands.map((command) => [command]);
        for (const group of groups) await (REFUSED.test(group.join('\n')) ? refused(group) : run(group));
        // Each block of the page installs the release again.
        if (/helm (install|upgrade --install) /.test(text)) await run(['helm uninstall keyferry -n keyferry']);
      });
    }
  });
}
