/**
 * Tests that the Dockerfile makes the same image as `npm run image`, which image.test.ts tests by starting it. This
 * test needs no container engine: it reads the Dockerfile, and runs the commands of its build stage on the files that
 * `.dockerignore` lets through.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cpSync, existsSync, globSync, lstatSync, mkdirSync, readFileSync, readlinkSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { after, before, it } from 'node:test';
import { promisify } from 'node:util';

import { makeApp } from '../../../scripts/image/app.ts';
import { imageLabels, NODE_PATH, RUNTIME } from '../../../scripts/image/config.ts';
import pinned from '../../../scripts/image/debian-packages.json' with { type: 'json' };
import { nodePin } from '../../../scripts/image/inputs.ts';
import { Reaper } from '../../servers/reaper.ts';
import { ensureBundle } from '../../support/bundle.ts';
import { readDockerfile, type Instruction } from './dockerfile.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const COMMIT = '0123456789abcdef0123456789abcdef01234567';
const MANIFEST = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as {
  version: string;
  optionalDependencies: Record<string, string>;
};
const stages = readDockerfile(readFileSync(path.join(ROOT, 'Dockerfile'), 'utf8'), { KEYFERRY_COMMIT: COMMIT });
const final = stages.at(-1);
assert.ok(final !== undefined);

let folder: string;
before(async () => (folder = await Reaper.shared().temporaryFolder('keyferry-dockerfile-')));
after(async () => await Reaper.shared().removeFolder(folder));

it('the Dockerfile sets the same user, environment, entrypoint and labels as `npm run image`', () => {
  const source = { version: MANIFEST.version, revision: COMMIT };
  assert.deepEqual(
    {
      User: one('USER'),
      Env: all('ENV').flatMap(pairs),
      Entrypoint: JSON.parse(one('ENTRYPOINT')) as string[],
      WorkingDir: one('WORKDIR'),
      Labels: Object.fromEntries(all('LABEL').flatMap(pairs).map(halves)),
    },
    { ...RUNTIME, Labels: imageLabels(source) },
  );
  assert.deepEqual(all('CMD'), []);
});

it('the Dockerfile uses the same Node version and Debian release as `npm run image`', () => {
  for (const version of Object.values(MANIFEST.optionalDependencies)) {
    assert.equal(version, nodePin('amd64').version);
    const bases = stages.slice(0, -1).map(({ base }) => base);
    assert.deepEqual(new Set(bases), new Set([`node:${version}-${pinned.release}-slim`]));
  }
  const [, debian] = /^gcr\.io\/distroless\/cc-debian(\d+):nonroot$/.exec(final.base) ?? [];
  assert.equal({ 12: 'bookworm', 13: 'trixie' }[debian ?? ''], pinned.release);
  assert.ok(all('COPY').some(({ text, flags }) => text === `${NODE_PATH} ${NODE_PATH}` && flags['from'] === 'node'));
});

it('the Dockerfile runs commands only on the platform that builds, so an image for another platform needs no emulation', () => {
  for (const { platform, instructions } of stages) {
    if (platform === '$BUILDPLATFORM') continue;
    assert.deepEqual(
      instructions.filter(({ name }) => name === 'RUN'),
      [],
    );
  }
  assert.equal(stages[0]?.platform, '$BUILDPLATFORM');
});

it('from the files that .dockerignore lets through, the Dockerfile builds the same files as `npm run image`', async () => {
  const [context, image] = ['context', 'image'].map((name) => path.join(folder, name)) as [string, string];
  for (const file of await contextFiles()) cpSync(path.join(ROOT, file), path.join(context, file));
  symlinkSync(path.join(ROOT, 'node_modules'), path.join(context, 'node_modules'));
  const build = stages.find(({ name }) => name === 'build')?.instructions ?? [];
  const commands = build
    .filter(({ name, text }) => name === 'RUN' && !text.startsWith('npm ci '))
    .map(({ text }) => text);
  assert.equal(commands.length, 1);
  const env = { ...process.env, KEYFERRY_COMMIT: COMMIT };
  for (const command of commands) {
    await promisify(execFile)('sh', ['-c', command.replaceAll(' /image', ` ${image}`)], { cwd: context, env });
  }
  assert.ok(all('COPY').some(({ text, flags }) => text === '/image /' && flags['from'] === 'build'));

  const expected = path.join(folder, 'expected');
  mkdirSync(expected);
  makeApp(await ensureBundle(), expected);
  assert.deepEqual(list(image), list(expected));
  const { stdout } = await promisify(execFile)(process.execPath, [
    path.join(image, 'app/dist/keyferry.cjs'),
    'version',
  ]);
  assert.match(stdout, new RegExp(COMMIT));
});

function all(name: string): readonly Instruction[] {
  return final?.instructions.filter((instruction) => instruction.name === name) ?? [];
}

function one(name: string): string {
  const [instruction, ...more] = all(name);
  assert.ok(instruction !== undefined && more.length === 0, name);
  return instruction.text;
}

/** The pairs in an `ENV` or `LABEL` instruction: `a=b` and `c=d` for `a="b" c="d"`. */
function pairs({ text }: Instruction): string[] {
  return [...text.matchAll(/(\S+?)="([^"]*)"/g)].map(([, key, value]) => `${key}=${value}`);
}

function halves(pair: string): [string, string] {
  const at = pair.indexOf('=');
  return [pair.slice(0, at), pair.slice(at + 1)];
}

/** Lists the files that `.dockerignore` lets through. Supports `*`, `!path` and `**` + `/*.suffix` in this file. */
async function contextFiles(): Promise<string[]> {
  const rules = readFileSync(path.join(ROOT, '.dockerignore'), 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'));
  const { stdout } = await promisify(execFile)('git', ['ls-files', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    maxBuffer: 16 * 1024 * 1024,
  });
  const isIgnored = (file: string): boolean => {
    let ignored = false;
    for (const rule of rules) {
      const pattern = rule.replace(/^!/, '');
      const matches =
        pattern === '*' || file === pattern || file.startsWith(`${pattern}/`) || path.posix.matchesGlob(file, pattern);
      if (matches) ignored = !rule.startsWith('!');
    }
    return ignored;
  };
  return stdout.split('\n').filter((file) => file !== '' && existsSync(path.join(ROOT, file)) && !isIgnored(file));
}

/**
 * Lists each file with its mode and content, and each link with its target. The content of the bundle is left out,
 * because it names the commit.
 */
function list(tree: string): string[] {
  return globSync('**/*', { cwd: tree })
    .toSorted()
    .map((file) => {
      const at = path.join(tree, file);
      const stat = lstatSync(at);
      if (stat.isSymbolicLink()) return `${file} → ${readlinkSync(at)}`;
      const content = stat.isDirectory() || file.endsWith('dist/keyferry.cjs') ? '' : readFileSync(at, 'utf8');
      return `${file} ${stat.mode.toString(8)} ${content}`;
    });
}
