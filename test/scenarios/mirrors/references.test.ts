/**
 * No field of a mirror makes Keyferry read an object in a namespace that is not the mirror's. The CRD refuses most such
 * fields. These tests also use a CRD without validation, and the audit log shows what Keyferry read.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';

import type { Json } from '../../support/api.ts';
import { readJsonLines } from '../../support/json-lines.ts';
import { permitEverything } from './permit-everything.ts';
import { HOME, mirrorPath, MirrorScene } from './support.ts';

const THEIRS = 'secrets-of-others';
/** Names that would lead to another object if Keyferry put them into a URL unescaped, or if a proxy resolved them. */
const CLIMBING = [`../../${THEIRS}/secrets/theirs`, '..', 'a/b', 'a?b', 'a#b', `..%2f..%2f${THEIRS}`];
const PLACE = { addr: 'http://127.0.0.1:1', path: 'secret/data/x' };

interface Case {
  readonly spec: Json;
  /** The expected message of the condition; `undefined`: the field does not exist and is ignored. */
  readonly message: RegExp | undefined;
  /**
   * Whether the CRD accepts the spec. It accepts the name of another namespace where a flag of the operator decides
   * whether that is permitted.
   */
  readonly admitted: boolean;
}

const escaped = (text: string): string => text.replaceAll(/[.?]/g, String.raw`\$&`);

function* cases(): Iterable<readonly [string, Case]> {
  const side = { source: 'from', destination: 'to' } as const;
  const specs = (vault: Json): Readonly<Record<keyof typeof side, Json>> => ({
    source: { source: { type: 'vault', vault }, destination: { namespaces: ['target'] } },
    destination: { source: { name: 'own' }, destination: { type: 'vault', vault } },
  });
  for (const [part, title] of Object.entries(side)) {
    const at = (auth: Json): Json => specs({ ...PLACE, auth })[part as keyof typeof side];
    for (const method of ['approle', 'token']) {
      const field = `spec.${part}.vault.auth.${method}.secretRef`;
      const ref = (secretRef: Json): Json => at({ [method]: { secretRef } });
      const message = new RegExp(`^${escaped(field)}\\.namespace: .*"${THEIRS}".*--allow-cross-namespace-auth`);
      const spec = ref({ name: 'theirs', namespace: THEIRS });
      yield [`${title}-${method}-namespace`, { spec, message, admitted: true }];
      for (const [n, name] of CLIMBING.entries()) {
        const refused = new RegExp(`^${escaped(field)}\\.name: .* is not a valid object name`);
        yield [`${title}-${method}-name-${n}`, { spec: ref({ name }), message: refused, admitted: false }];
      }
      const upwards = {
        spec: ref({ name: 'theirs', namespace: `../${THEIRS}` }),
        message: /namespace/,
        admitted: false,
      };
      yield [`${title}-${method}-upwards`, upwards];
    }
    const login = (serviceAccountRef: Json): Json => at({ kubernetes: { role: 'r', serviceAccountRef } });
    for (const [n, name] of CLIMBING.entries()) {
      const message = new RegExp(
        `^spec\\.${part}\\.vault\\.auth\\.kubernetes\\.serviceAccountRef\\.name: .* is not a valid object name`,
      );
      yield [`${title}-account-name-${n}`, { spec: login({ name }), message, admitted: false }];
    }
    const theirs = { name: 'theirs', namespace: THEIRS, audiences: ['vault'] };
    yield [`${title}-account-namespace`, { spec: login(theirs), message: undefined, admitted: true }];
  }
  for (const [n, name] of CLIMBING.entries()) {
    const spec = { source: { name }, destination: { namespaces: ['target'] } };
    yield [`source-name-${n}`, { spec, message: /^spec\.source\.name: /, admitted: false }];
  }
  const elsewhere = { source: { name: 'theirs', namespace: THEIRS }, destination: { namespaces: ['target'] } };
  yield ['source-namespace', { spec: elsewhere, message: undefined, admitted: true }];
}

const TABLE = [...cases()];
let scene: MirrorScene;

const object = (name: string, spec: Json): Json => ({
  apiVersion: 'mirrors.kts.studio/v1alpha2',
  kind: 'SecretMirror',
  metadata: { name, namespace: HOME },
  spec,
});

before(async () => {
  scene = await MirrorScene.open({ controllerManager: false, audit: true });
  await scene.namespaces('target', THEIRS);
  await scene.secret(THEIRS, 'theirs', { token: 'x', 'role-id': 'x', 'secret-id': 'x' });
  await scene.secret(HOME, 'own', { a: '1' });
});
after(() => scene.close());

it('the CRD refuses every reference to another namespace that it can check', async () => {
  for (const [name, { spec, admitted }] of TABLE) {
    const { status, body } = await scene.api.raw('POST', mirrorPath(''), {
      body: object(name, spec),
      query: { dryRun: 'All' },
    });
    assert.equal(status, admitted ? 201 : 422, `${name}: ${JSON.stringify(body)}`);
  }
});

describe('a reference to another namespace, without validation by the CRD', () => {
  before(async () => {
    await permitEverything(scene.api);
    await scene.operator();
  });

  it("without validation by the CRD, a field that names another namespace is refused, or the mirror's own namespace is read", async () => {
    await Promise.all(TABLE.map(async ([name, { spec }]) => await scene.api.create(object(name, spec))));
    for (const [name, { message }] of TABLE) {
      if (message !== undefined) await scene.ready(name, 'InvalidSpec', message);
    }
    await scene.ready('source-namespace', 'NoSecret', new RegExp(`^secret ${HOME}/theirs not found`));
    const missing = new RegExp(`^serviceaccount ${HOME}/theirs for vault kubernetes login not found`);
    for (const title of ['from', 'to']) await scene.ready(`${title}-account-namespace`, 'VaultAuthMissing', missing);
  });

  it('without validation by the CRD, a reference to another namespace causes no read there and no copy', async () => {
    const asked = readJsonLines(scene.plane.auditLogPath)
      .filter(({ userAgent }) => /keyferry/i.test(userAgent))
      .map(({ requestURI }): string => requestURI);
    assert.ok(asked.some((uri) => uri.includes(`/namespaces/${HOME}/secretmirrors/`)));
    // Only the path is checked: the query of a request may contain any character.
    const strange = asked.filter((uri) => uri.includes(THEIRS) || /^[^?]*(?:\.\.|%)/.test(uri));
    assert.deepEqual(strange, []);
    assert.deepEqual(await scene.api.list('/api/v1/namespaces/target/secrets'), []);
  });
});
