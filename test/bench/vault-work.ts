/**
 * The objects in the benchmark of SecretMirrors with Vault. There are 50 entries. Each has four mirrors, and each of
 * these 200 mirrors copies its entry into 20 namespaces. 500 Secrets have one mirror each, which copies the Secret into
 * its own entry. All mirrors log in with one AppRole.
 */
import { startVault, type VaultServer } from '../servers/vault.ts';
import type { TestApi } from '../support/api.ts';
import { VaultLog } from './vault-log.ts';
import { copyKey, SOURCE_NAMESPACE, sourceData } from './workload.ts';

const API_VERSION = 'mirrors.kts.studio/v1alpha2';
const MIRRORS_PATH = `/apis/${API_VERSION}/namespaces/${SOURCE_NAMESPACE}/secretmirrors`;
const ENTRIES = 50;
const MIRRORS = 200;
/** Each of them reads the entry. */
export const MIRRORS_OF_AN_ENTRY = MIRRORS / ENTRIES;
const NAMESPACES_EACH = 20;
const OUT = 500;
const IDENTITY = 'bench-keyferry';
const POLICY = `
path "secret/data/bench/*" { capabilities = ["read", "create", "update"] }`;
/** The poll period of the mirrors, s. It is short, so that a run contains several polls. */
export const POLL_SECONDS = 10;

const numbered = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${String(index).padStart(3, '0')}`);

export const mirrorNames = (): string[] => numbered('bench-vault-', MIRRORS);
export const entryNames = (): string[] => numbered('bench-entry-', ENTRIES);
export const outNames = (): string[] => numbered('bench-out-', OUT);

/** The keys of the copies that all mirrors make. */
export function mirroredKeys(): string[] {
  return mirrorNames().flatMap((name, index) =>
    numbered('bench-target-', 10 * groupOf(index) + NAMESPACES_EACH)
      .slice(-NAMESPACES_EACH)
      .map((namespace) => copyKey(namespace, name)),
  );
}

/** The number of a mirror among the four mirrors of its entry, from 0. The four have different namespaces. */
function groupOf(index: number): number {
  return Math.floor(index / ENTRIES);
}

function namespacesOf(index: number): string[] {
  const group = groupOf(index);
  return [`bench-target-0[${group}${group + 1}].`];
}

/** The values of an entry, or of a Secret that is copied to Vault, as text. */
function textData(name: string, generation: string): Record<string, string> {
  return { ...sourceData(name, generation), generation };
}

export class VaultWork implements AsyncDisposable {
  #vault: VaultServer | undefined;
  #log: VaultLog | undefined;

  get log(): VaultLog {
    if (this.#log === undefined) throw new Error('Vault has not been started');
    return this.#log;
  }

  /** Starts Vault. Creates the AppRole that all mirrors use. */
  async start(api: TestApi, onProgress: (line: string) => void): Promise<void> {
    onProgress('starting Vault');
    const vault = await startVault({ auditLog: true, onProgress });
    this.#vault = vault;
    this.#log = new VaultLog(vault.auditLogPath, IDENTITY);
    await vault.request('POST', 'sys/auth/approle', { type: 'approle' });
    await vault.request('PUT', `sys/policies/acl/${IDENTITY}`, { policy: POLICY });
    await vault.request('POST', `auth/approle/role/${IDENTITY}`, { token_policies: [IDENTITY], token_ttl: '1h' });
    const role = await vault.request('GET', `auth/approle/role/${IDENTITY}/role-id`);
    const secret = await vault.request('POST', `auth/approle/role/${IDENTITY}/secret-id`, {});
    await api.create({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: IDENTITY, namespace: SOURCE_NAMESPACE },
      stringData: { 'role-id': role.data.role_id, 'secret-id': secret.data.secret_id },
    });
  }

  async createSources(api: TestApi, generation: string): Promise<void> {
    await this.writeEntries(generation);
    await api.createMany(
      mirrorNames().map((name, index) => {
        const vault = this.#block(entryNames()[index % ENTRIES] ?? '');
        return mirror(name, { name, type: 'vault', vault }, { namespaces: namespacesOf(index) });
      }),
    );
  }

  async removeOwners(api: TestApi): Promise<void> {
    await Promise.all(mirrorNames().map(async (name) => await api.delete(`${MIRRORS_PATH}/${name}`)));
  }

  /** Writes a new version of each entry. */
  async writeEntries(generation: string): Promise<void> {
    await Promise.all(
      entryNames().map(async (name) => {
        const body = { data: textData(name, generation) };
        await this.#server.request('POST', `secret/data/bench/${name}`, body);
      }),
    );
  }

  /** Creates 500 Secrets, and for each a mirror to Vault. */
  async createOut(api: TestApi, generation: string): Promise<void> {
    await api.createMany(outNames().map((name) => secret(name, generation)));
    await api.createMany(outNames().map((name) => mirror(name, { name }, { type: 'vault', vault: this.#block(name) })));
  }

  /**
   * `highest`: the highest version of the 500 entries. `right`: how many of them have the values of this generation.
   */
  async outState(generation: string): Promise<{ readonly highest: number; readonly right: number }> {
    let highest = 0;
    let right = 0;
    for (const name of outNames()) {
      const { data } = await this.#server.request('GET', `secret/data/bench/${name}`);
      highest = Math.max(highest, data.metadata.version);
      if (data.data.generation === generation) right += 1;
    }
    return { highest, right };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#vault?.stop();
  }

  get #server(): VaultServer {
    if (this.#vault === undefined) throw new Error('Vault has not been started');
    return this.#vault;
  }

  #block(name: string): object {
    return {
      addr: this.#server.addr,
      path: `secret/data/bench/${name}`,
      auth: { approle: { secretRef: { name: IDENTITY } } },
    };
  }
}

function mirror(name: string, source: object, destination: object): object {
  return {
    apiVersion: API_VERSION,
    kind: 'SecretMirror',
    metadata: { name, namespace: SOURCE_NAMESPACE },
    spec: { source, destination, pollPeriodSeconds: POLL_SECONDS },
  };
}

function secret(name: string, generation: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace: SOURCE_NAMESPACE },
    stringData: textData(name, generation),
  };
}
