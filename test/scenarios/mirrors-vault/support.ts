/** Shared by the scenarios of SecretMirrors with Vault: a cluster, an operator, real Vaults, and AppRoles with narrow policies. */
import { readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';

import type { Json } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';
import type { ControlPlaneOptions } from '../../servers/control-plane.ts';
import { startPostgres, type PostgresServer } from '../../servers/postgres.ts';
import { mountDatabase } from '../../servers/vault-database.ts';
import { startVault } from '../../servers/vault.ts';
import type { VaultCalls, VaultJson, VaultOptions, VaultServer } from '../../servers/vault.ts';
import { HOME, MirrorScene, secretPath } from '../mirrors/support.ts';

export const LEASE_ID = 'mirrors.kts.studio/vault-lease-id';

export class VaultScene {
  readonly mirrors: MirrorScene;
  readonly vault: VaultServer;
  readonly #more: (VaultServer | PostgresServer)[] = [];

  private constructor(mirrors: MirrorScene, vault: VaultServer) {
    this.mirrors = mirrors;
    this.vault = vault;
  }

  static async open(options: VaultOptions = {}, plane: ControlPlaneOptions = {}): Promise<VaultScene> {
    const [mirrors, vault] = await Promise.all([
      MirrorScene.open({ controllerManager: false, ...plane }),
      startVault(options),
    ]);
    return new VaultScene(mirrors, vault);
  }

  /**
   * Opens the scene with a PostgreSQL server, for which Vault has a database engine at `mount`. `close` stops both
   * servers.
   */
  static async openWithDatabase(mount: string): Promise<{ scene: VaultScene; database: PostgresServer }> {
    await using resources = new AsyncDisposableStack();
    const database = resources.use(await startPostgres());
    const scene = await VaultScene.open();
    resources.defer(() => scene.close());
    await mountDatabase(scene.vault, mount, database);
    resources.move();
    scene.#more.push(database);
    return { scene, database };
  }

  async anotherVault(options: VaultOptions = {}): Promise<VaultServer> {
    const vault = await startVault(options);
    this.#more.push(vault);
    return vault;
  }

  async close(): Promise<void> {
    try {
      await this.mirrors.close();
    } finally {
      for (const server of [this.vault, ...this.#more]) await server.stop();
    }
  }

  /** Writes an entry of KV 2, with the canary before each value. @returns its version */
  async put(path: string, values: Readonly<Record<string, string>>, vault: VaultCalls = this.vault): Promise<number> {
    const data = Object.fromEntries(Object.entries(values).map(([key, text]) => [key, this.mirrors.canary + text]));
    const answer = await vault.request('POST', path, { data });
    return answer.data.version;
  }

  /** Reads an entry of KV 2 with its metadata. @returns `undefined` if it does not exist */
  async entry(path: string, vault = this.vault): Promise<VaultJson> {
    const { status, body } = await vault.raw('GET', path);
    return status === 200 ? body.data : undefined;
  }

  /** Waits until the entry has exactly these values, each with the canary before its text. @returns the entry */
  async holds(path: string, values: Readonly<Record<string, string>>, vault = this.vault): Promise<VaultJson> {
    const wanted = Object.fromEntries(Object.entries(values).map(([key, text]) => [key, this.mirrors.canary + text]));
    return await waitFor(
      async () => {
        const entry = await this.entry(path, vault);
        return isDeepStrictEqual(entry?.data, wanted) && entry;
      },
      { message: () => `the vault entry ${path}; the end of the log:\n${this.mirrors.tail()}` },
    );
  }

  /** Creates a policy from `hcl`, a token with only this policy, and a Secret with the token. @returns the token */
  async tokenSecret(name: string, hcl: string, vault = this.vault, ttl = '1h', key = 'token'): Promise<string> {
    await vault.request('PUT', `sys/policies/acl/${name}`, { policy: hcl });
    const { auth } = await vault.request('POST', 'auth/token/create-orphan', { policies: [name], ttl });
    await this.credential(name, { [key]: auth.client_token });
    return auth.client_token;
  }

  /** Creates a policy from `hcl`, an AppRole with only this policy, and a Secret with the ids of the AppRole. */
  async approle(name: string, hcl: string, options: Json = {}, vault: VaultCalls = this.vault): Promise<void> {
    const mount = options.mount ?? 'approle';
    const { body } = await vault.raw('GET', 'sys/auth');
    if (body.data[`${mount}/`] === undefined) await vault.request('POST', `sys/auth/${mount}`, { type: 'approle' });
    await vault.request('PUT', `sys/policies/acl/${name}`, { policy: hcl });
    const role = { token_policies: [name], token_ttl: '1h', ...options.role };
    await vault.request('POST', `auth/${mount}/role/${name}`, role);
    const ids = await this.ids(name, mount, vault);
    const [roleKey = 'role-id', secretKey = 'secret-id'] = options.keys ?? [];
    await this.credential(name, { [roleKey]: ids.roleId, [secretKey]: ids.secretId });
  }

  async ids(
    name: string,
    mount = 'approle',
    vault: VaultCalls = this.vault,
  ): Promise<{ roleId: string; secretId: string }> {
    const role = await vault.request('GET', `auth/${mount}/role/${name}/role-id`);
    const secret = await vault.request('POST', `auth/${mount}/role/${name}/secret-id`, {});
    return { roleId: role.data.role_id, secretId: secret.data.secret_id };
  }

  /** Creates or replaces a Secret with these values, which a login uses as its credential. */
  async credential(name: string, values: Readonly<Record<string, string>>): Promise<void> {
    const { api } = this.mirrors;
    const encoded = Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString('base64')]);
    const data: Json = Object.fromEntries(encoded);
    if ((await this.mirrors.find(HOME, name)) === undefined) {
      await api.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: HOME }, data });
    } else {
      await api.patch(secretPath(HOME, name), [{ op: 'add', path: '/data', value: data }], 'json');
    }
  }

  /** Applies a manifest of the original's article, with the addresses in it replaced by those of the test. */
  async manifest(file: string, addresses: Readonly<Record<string, string>>): Promise<Json[]> {
    const url = new URL(`../mirrors/manifests/${file}`, import.meta.url);
    let text = await readFile(url, 'utf8');
    for (const [from, to] of Object.entries(addresses)) text = text.replaceAll(from, to);
    return await this.mirrors.api.apply(text);
  }

  /** A `vault` block that logs in with the token in a Secret. */
  block(path: string, secret: string, more: Json = {}, vault = this.vault): Json {
    const caBundle = vault.caPem === '' ? {} : { caBundle: vault.caPem };
    return { addr: vault.addr, path, auth: { token: { secretRef: { name: secret } } }, ...caBundle, ...more };
  }

  async fromVault(name: string, vault: Json, namespaces: readonly string[], spec: Json = {}): Promise<Json> {
    const source = { type: 'vault', vault };
    return await this.mirrors.mirror(name, namespaces, { pollPeriodSeconds: 1, source, ...spec });
  }

  async toVault(name: string, source: Json, vault: Json, spec: Json = {}): Promise<Json> {
    return await this.mirrors.api.create({
      apiVersion: 'mirrors.kts.studio/v1alpha2',
      kind: 'SecretMirror',
      metadata: { name, namespace: HOME },
      spec: { pollPeriodSeconds: 1, source, destination: { type: 'vault', vault }, ...spec },
    });
  }
}

/** The HCL of a policy with these capabilities. `paths`: for example `{ 'secret/data/app': ['read'] }`. */
export function policy(paths: Readonly<Record<string, readonly string[]>>): string {
  return Object.entries(paths)
    .map(([path, capabilities]) => `path "${path}" { capabilities = ${JSON.stringify(capabilities)} }`)
    .join('\n');
}

/** The HCL of a policy that permits all that mirrors do, except deletions. */
export const ALL = policy({ '*': ['create', 'read', 'update', 'list'] });

/** The HCL of the policy under this heading of docs/vault.md. */
export async function documentedPolicy(heading: string): Promise<string> {
  return await documented(heading, 'hcl');
}

/** The YAML in docs/vault.md of the role binding that Vault needs for logins with a ServiceAccount. */
export async function documentedRoleBinding(): Promise<string> {
  return await documented('Log in with a ServiceAccount', 'yaml');
}

async function documented(heading: string, language: string): Promise<string> {
  const page = await readFile(new URL('../../../docs/vault.md', import.meta.url), 'utf8');
  const section = page.split(/^#{2,3} /m).find((text) => text.startsWith(`${heading}\n`));
  const text = new RegExp(`\`\`\`${language}\\n([^\`]+)\`\`\``).exec(section ?? '')?.[1];
  if (text === undefined) throw new Error(`docs/vault.md has no ${language} below ${heading}`);
  return text;
}
