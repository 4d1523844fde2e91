/**
 * Takes the controller of docs/add-a-kind.md out of the page, adds it to a copy of the sources as the page says, builds
 * that Keyferry, and runs it against a real API server.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp, mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, it } from 'node:test';
import { promisify } from 'node:util';

import { type ControlPlane, startControlPlane } from '../../servers/control-plane.ts';
import type { Json } from '../../support/api.ts';
import { Keyferry } from '../../support/keyferry.ts';
import { codeBlocks } from '../../support/markdown.ts';
import { staysTrue, waitFor } from '../../support/wait-for.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
/** In the project, so that the copy finds its packages; in a folder that no other check reads. */
const COPY = path.join(ROOT, 'dist', `toy-${process.pid}`);
const BUNDLE = path.join(COPY, 'dist/keyferry.cjs');
const COPY_TO = 'example.dev/copy-to';
/** Within this time, an effect that the test does not want would have begun, ms. */
const SETTLE_MS = 1000;
const run = promisify(execFile);

const BLOCKS = codeBlocks(readFileSync(path.join(ROOT, 'docs/add-a-kind.md'), 'utf8'));

let plane: ControlPlane;
let keyferry: Keyferry;

before(async () => {
  [plane] = await Promise.all([startControlPlane({ controllerManager: false }), build()]);
  await plane.api.createNamespaces(['home', 'team-a', 'team-b', 'elsewhere']);
  keyferry = await start();
});

after(async () => {
  await keyferry?.kill9();
  await plane?.stop();
  await rm(COPY, { recursive: true, force: true });
});

/** Does what the page says. */
async function build(): Promise<void> {
  const isShipped = (file: string): boolean => !file.endsWith('.test.ts');
  for (const folder of ['src', 'scripts', 'deploy', 'ui'])
    await cp(path.join(ROOT, folder), path.join(COPY, folder), { recursive: true, filter: isShipped });
  await cp(path.join(ROOT, 'package.json'), path.join(COPY, 'package.json'));
  const typescript = { extends: path.join(ROOT, 'tsconfig.json'), include: ['src'] };
  await writeFile(path.join(COPY, 'tsconfig.json'), JSON.stringify(typescript));
  const own = path.join(COPY, 'src/controllers/toy');
  await mkdir(own);
  for (const file of ['rules.ts', 'shape.ts', 'words.ts', 'index.ts'])
    await writeFile(path.join(own, file), block(file));
  const list = path.join(COPY, 'src/controllers/list.ts');
  const [line = ''] = block('list.ts').trim().split('\n');
  const [, name = ''] = /import \{ (\w+) \}/.exec(line) ?? [];
  const text = readFileSync(list, 'utf8').replace('\nimport', `\n${line}\nimport`);
  await writeFile(list, text.replace('= [\n', `= [\n  ${name},\n`));
  await run(process.execPath, ['scripts/gen.ts'], { cwd: COPY });
  await run(path.join(ROOT, 'node_modules/.bin/tsc'), ['--noEmit', '-p', '.'], { cwd: COPY }).catch(
    (error: unknown) => {
      assert.fail(String((error as { stdout?: string }).stdout));
    },
  );
  await run(process.execPath, ['scripts/build.ts'], { cwd: COPY });
}

/** The code block of the page with this file name in its fence. */
function block(file: string): string {
  const found = BLOCKS.filter(({ language, mark }) => language === 'ts' && mark === file);
  assert.equal(found.length, 1, `the page has one block for ${file}`);
  return `${found[0]?.text}\n`;
}

async function start(): Promise<Keyferry> {
  const started = await Keyferry.start({
    bundle: BUNDLE,
    kubeconfig: plane.kubeconfigPath,
    args: ['--controllers=toy'],
  });
  await started.ready();
  return started;
}

const pathOf = (namespace: string, name = 'db'): string => `/api/v1/namespaces/${namespace}/secrets/${name}`;
const encoded = (text: string): Record<string, string> => ({ password: Buffer.from(text).toString('base64') });

async function secret(
  namespace: string,
  name: string,
  text: string,
  annotations: Json,
  labels: Json = {},
): Promise<Json> {
  const metadata = { namespace, name, annotations, labels };
  return await plane.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, data: encoded(text) });
}

/** Sets `example.dev/copy-to` of home/db; `null` removes it. */
async function copyTo(value: string | null): Promise<void> {
  await plane.api.patch(pathOf('home'), { metadata: { annotations: { [COPY_TO]: value } } });
}

async function holds(namespace: string, text: string, name = 'db'): Promise<Json> {
  return await waitFor(
    async () => {
      const found = await plane.api.find(pathOf(namespace, name));
      return found?.data.password === encoded(text)['password'] ? found : undefined;
    },
    { message: `${namespace}/${name} to hold ${text}` },
  );
}

async function gone(namespace: string): Promise<void> {
  await waitFor(async () => (await plane.api.find(pathOf(namespace))) === undefined, {
    message: `${namespace}/db to be gone`,
  });
}

/** All Secrets with their versions. */
async function versions(): Promise<string> {
  const secrets = await plane.api.list('/api/v1/secrets');
  return secrets.map(({ metadata }) => `${metadata.namespace}/${metadata.name} ${metadata.resourceVersion}`).join('\n');
}

it('a copy is made, is repaired after an edit, and follows its source', async () => {
  await secret('home', 'db', 'one', { [COPY_TO]: 'team-a, team-b' }, { app: 'db' });
  const copy = await holds('team-a', 'one');
  assert.equal(copy.metadata.labels.app, 'db');
  await holds('team-b', 'one');
  await plane.api.patch(pathOf('team-a'), { data: encoded('tampered') });
  await holds('team-a', 'one');
  await plane.api.patch(pathOf('home'), { data: encoded('two') });
  await holds('team-a', 'two');
  await holds('team-b', 'two');
});

it('a clone of a copy in another namespace belongs to the user who made it', async () => {
  const { metadata, ...copy } = await holds('team-a', 'two');
  const { labels, annotations } = metadata;
  // As `kubectl get -o yaml | kubectl apply` makes it.
  const clone = await plane.api.create({
    ...copy,
    metadata: { namespace: 'elsewhere', name: 'db', labels, annotations },
  });
  await plane.api.patch(pathOf('home'), { data: encoded('three') });
  await holds('team-b', 'three');
  assert.equal((await plane.api.get(pathOf('elsewhere'))).metadata.resourceVersion, clone.metadata.resourceVersion);
});

it('a wrong value is told by a Warning event, and deletes no copy', async () => {
  await holds('team-a', 'three');
  await copyTo('team-a, Team B');
  const before = await versions();
  const event = await waitFor(
    async () => {
      const events = await plane.api.list('/api/v1/namespaces/home/events');
      return events.find(({ type, involvedObject }) => type === 'Warning' && involvedObject.name === 'db');
    },
    { message: 'the Warning event' },
  );
  assert.equal(event.reason, 'IllFormed');
  assert.match(event.message, /"Team B".* not a name of a namespace/);
  assert.equal(event.source.component, 'keyferry-toy');
  await staysTrue(async () => (await versions()) === before, SETTLE_MS, 'no Secret changes');
  await copyTo('team-a, team-b');
});

it('one write that changes the data and takes a namespace from the list gives this namespace no new data', async () => {
  await holds('team-a', 'three');
  const seen: string[] = [];
  const watcher = await plane.api.watch('/api/v1/namespaces/team-a/secrets', ({ object }) => {
    seen.push(object.data?.password ?? '');
  });
  await plane.api.patch(pathOf('home'), {
    metadata: { annotations: { [COPY_TO]: 'team-b' } },
    data: encoded('withheld'),
  });
  await holds('team-b', 'withheld');
  await gone('team-a');
  await watcher.stop();
  assert.ok(!seen.includes(encoded('withheld')['password'] ?? ''));
  await plane.api.patch(pathOf('home'), {
    metadata: { annotations: { [COPY_TO]: 'team-a, team-b' } },
    data: encoded('three'),
  });
});

it('after a restart, nothing is written', async () => {
  await holds('team-a', 'three');
  await keyferry.stop();
  const before = await versions();
  keyferry = await start();
  await staysTrue(async () => (await versions()) === before, SETTLE_MS, 'all Secrets are as before the restart');
  // The started process does work.
  await secret('home', 'late', 'late', { [COPY_TO]: 'team-b' });
  await holds('team-b', 'late', 'late');
});

it('a namespace gets no copy before it accepts copies from the namespace of the source', async () => {
  await plane.api.patch('/api/v1/namespaces/elsewhere', {
    metadata: { annotations: { 'keyferry.dev/accept-from': 'nobody' } },
  });
  await secret('home', 'unwanted', 'x', { [COPY_TO]: 'elsewhere,team-b' });
  await holds('team-b', 'x', 'unwanted');
  assert.equal(await plane.api.find(pathOf('elsewhere', 'unwanted')), undefined);
  // A change of the namespace concerns the rule.
  await plane.api.patch('/api/v1/namespaces/elsewhere', {
    metadata: { annotations: { 'keyferry.dev/accept-from': 'home' } },
  });
  await holds('elsewhere', 'x', 'unwanted');
});

it('the commands run, although no reader describes these rules', async () => {
  for (const args of [['status'], ['status', '--controllers=toy'], ['explain', 'secret', 'team-a/db']]) {
    const { stderr } = await run(process.execPath, [BUNDLE, ...args, `--kubeconfig=${plane.kubeconfigPath}`]);
    assert.equal(stderr, '', args.join(' '));
  }
});

it('a namespace that is no longer named loses its copy, and so do all when the annotation goes; the clone stays', async () => {
  await copyTo('team-b');
  await gone('team-a');
  await copyTo(null);
  await gone('team-b');
  assert.ok(await plane.api.find(pathOf('home')));
  assert.ok(await plane.api.find(pathOf('elsewhere')));
});
