/**
 * A command that cannot do its work prints one line about it. The line has no class or stack of an error, and no value
 * of a Secret or login.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';

import { assertNoCanaries, makeCanary } from '../../support/canary.ts';
import { runProgram } from './program.ts';

const CANARY = makeCanary('message');
const SECRET = 'apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: home}\n';

let folder: string;
before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'keyferry-messages-'));
  await file('kubeconfig', kubeconfig({}));
});
after(() => rm(folder, { recursive: true }));

async function file(name: string, content: string | Uint8Array): Promise<string> {
  const place = path.join(folder, name);
  await writeFile(place, content);
  return place;
}

/** A kubeconfig as text. By default its server is a port where no process listens. */
function kubeconfig(user: object, cluster: object = { server: 'http://127.0.0.1:1' }): string {
  return JSON.stringify({
    'current-context': 'c',
    contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
    clusters: [{ name: 'c', cluster }],
    users: [{ name: 'u', user }],
  });
}

/** Runs a command that must fail, and checks the form of its message. @returns the text on stderr */
async function failed(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runProgram(args);
  assert.equal(code, 1, stderr);
  assert.equal(stdout, '');
  assert.doesNotMatch(stderr, /\b[A-Z]\w*(?:Error|Exception)\b|\[ERR_|\n\s+at |node:/);
  assertNoCanaries({ stderr }, { value: CANARY });
  assert.equal(stderr.trimEnd().split('\n').length, 1, stderr);
  return stderr;
}

/** Rows for each other mistake: `commands/plan/manifests.test.ts`. */
const MANIFESTS: readonly (readonly [title: string, content: string | Uint8Array])[] = [
  ['an alias that contains itself', `${SECRET}data: &a\n  b: *a\n  c: {d: *a}\n`],
  ['deep nesting', `${SECRET}x: ${'['.repeat(20_000)}${']'.repeat(20_000)}\n`],
  ['bytes that are not UTF-8', Buffer.from([0xff, 0xfe, 0x00, 0x80])],
  ['a mistake in YAML', `${SECRET}stringData: {password: "${CANARY}\n`],
];

describe('keyferry plan of a manifest with a mistake', { concurrency: 2 }, () => {
  for (const [title, content] of MANIFESTS) {
    it(`keyferry plan of a manifest with ${title} prints one line about the mistake, and no value`, async () => {
      const manifest = await file(`${title}.yaml`, content);
      await failed('plan', manifest, '--kubeconfig', path.join(folder, 'kubeconfig'));
    });
  }
});

const exec = (command: string, ...args: readonly string[]): object => ({
  exec: { apiVersion: 'client.authentication.k8s.io/v1', command, args, interactiveMode: 'Never' },
});
const TLS = { server: 'https://127.0.0.1:1' };
/** Rows for each other mistake: `kube/auth/kubeconfig.test.ts`. */
const KUBECONFIGS: readonly (readonly [title: string, content: string, message: RegExp])[] = [
  ['deep nesting', `users: ${'['.repeat(20_000)}${']'.repeat(20_000)}\n`, /./],
  ['a mistake in YAML', `users: {token: "${CANARY}\n`, /is not YAML/],
  ['an invalid certificate authority', kubeconfig({}, { ...TLS, 'certificate-authority-data': 'AAAA' }), /./],
  ['a credential plugin that does not exist', kubeconfig(exec('/nowhere/plugin')), /was not found/],
  ['a null byte in the arguments of a credential plugin', kubeconfig(exec('true', `${CANARY}\u0000`)), /null bytes/],
  ['a credential plugin that prints no JSON', kubeconfig(exec('echo', CANARY)), /./],
  ['a server that refuses the connection', kubeconfig({}), /cannot use the cluster at http:\/\/127\.0\.0\.1:1/],
];

describe('keyferry status with a kubeconfig with a mistake', { concurrency: 2 }, () => {
  for (const [title, content, message] of KUBECONFIGS) {
    it(`keyferry status with a kubeconfig with ${title} prints one line about the mistake, and no value`, async () => {
      const place = await file(`${title}.config`, content);
      const stderr = await failed('status', '--kubeconfig', place);
      assert.match(stderr, message);
      assert.ok(stderr.includes(place), stderr);
    });
  }
});
