/**
 * Runs the commands of the documentation: `kubectl` and `vault` commands with the clients of the tests, and `npx --no
 * keyferry` with the bundle.
 */
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';

import { ensureBundle } from '../../support/bundle.ts';
import type { Json, TestApi } from '../../support/api.ts';
import type { ControlPlane } from '../../servers/control-plane.ts';
import { waitFor } from '../../support/wait-for.ts';
import type { VaultServer } from '../../servers/vault.ts';

const GROUPS: Readonly<Record<string, string>> = {
  secrets: '/api/v1',
  configmaps: '/api/v1',
  secretmirrors: '/apis/mirrors.kts.studio/v1alpha2',
  syncsecrets: '/apis/kubelb.k8c.io/v1alpha1',
};
const TABLE = 'application/json;as=Table;g=meta.k8s.io;v=v1';
/** Columns of a table whose values differ in every run. */
const VARIABLE_COLUMNS = new Set(['AGE', 'LAST SYNC TIME']);

/** Texts that differ in every run: times, ages, and numbers at the end of a line such as versions. */
const VARIABLE_TEXT = /\d{4}-\d\d-\d\dT[\d:]+Z|\b\d+$|\b\d+[smhd]\b/gm;

type Row = Readonly<Record<string, string>>;

/** A command, and the output that the page shows for it. */
export interface Step {
  readonly command: string;
  readonly shown: string;
}

/** The steps of a console block. A line that starts with `$ ` is a command; the lines after it are its output. */
export function stepsOf(text: string): Step[] {
  return text
    .split(/^\$ /m)
    .slice(1)
    .map((part) => {
      const [command = '', ...output] = part.trimEnd().split('\n');
      return { command, shown: output.join('\n') };
    });
}

export class Shell {
  readonly #api: TestApi;
  readonly #kubeconfig: string;
  /** The folder with the files that the pages use. */
  readonly #folder: string;
  /** The Vaults of the test. Keys: the addresses in the pages. */
  readonly #vaults: Readonly<Record<string, VaultServer>>;

  constructor({ api, kubeconfigPath, folder }: ControlPlane, vaults: Readonly<Record<string, VaultServer>>) {
    this.#api = api;
    this.#kubeconfig = kubeconfigPath;
    this.#folder = folder;
    this.#vaults = vaults;
  }

  save(name: string, text: string): void {
    writeFileSync(path.join(this.#folder, name), text);
  }

  /** Runs a command until its output is the one on the page. @throws Error for an unknown command */
  async run({ command, shown }: Step): Promise<void> {
    const [call = '', filter = ''] = command.split(' | ', 2);
    const [program, verb, ...args] = call.split(/ +/);
    const [first, ...rest] = args;
    if (call.startsWith('npx --no keyferry ')) return await this.#keyferry(rest, shown);
    if (program === 'kubectl' && verb === 'apply') return await this.#apply(rest);
    if (program === 'kubectl' && verb === 'create') return await this.#createNamespace(args);
    if (program === 'kubectl' && verb === 'label') return await this.#labelNamespaces(args);
    if (program === 'kubectl' && verb === 'delete') return await this.#delete(args);
    if (program === 'kubectl' && verb === 'get' && filter === '') return await this.#table(args, shown);
    if (program === 'kubectl' && verb === 'get') return await this.#value(args, shown);
    if (program === 'vault' && first === 'put') return await this.#put(rest);
    if (program === 'vault' && first === 'get') return await this.#entry(rest, command.includes('keys'), shown);
    throw new Error(`the documentation has a command that this test does not support: ${command}`);
  }

  async #keyferry(args: readonly string[], shown: string): Promise<void> {
    const command = [await ensureBundle(), ...args, '--kubeconfig', this.#kubeconfig];
    const expected = shown.replaceAll(VARIABLE_TEXT, '#').trimEnd();
    let actual = '';
    await waitFor(
      async () => {
        const answer = await promisify(execFile)(process.execPath, command, { cwd: this.#folder }).catch(
          (error: { stdout: string }) => error,
        );
        actual = answer.stdout.replaceAll(/ +$/gm, '').replaceAll(VARIABLE_TEXT, '#').trimEnd();
        return actual === expected;
      },
      { intervalMs: 200, message: () => `keyferry ${args.join(' ')} to show\n${expected}\nand not\n${actual}` },
    );
  }

  async #apply([file = '']: readonly string[]): Promise<void> {
    await this.#api.apply(readFileSync(path.join(this.#folder, file), 'utf8'));
  }

  async #createNamespace([kind, name]: readonly string[]): Promise<void> {
    if (kind !== 'namespace') throw new Error(`kubectl create ${kind}`);
    await this.#api.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
  }

  /** Sets or removes labels: `namespace NAME… KEY=VALUE`, or `KEY-`. */
  async #labelNamespaces([kind, ...args]: readonly string[]): Promise<void> {
    if (kind !== 'namespace') throw new Error(`kubectl label ${kind}`);
    const [change = ''] = args.slice(-1);
    const [key = '', value = null] = change.endsWith('-') ? [change.slice(0, -1)] : change.split('=', 2);
    for (const name of args.slice(0, -1)) {
      await this.#api.patch(`/api/v1/namespaces/${name}`, { metadata: { labels: { [key]: value } } });
    }
  }

  async #delete([kind, name = '']: readonly string[]): Promise<void> {
    const path = collection(`${kind}s`, 'default') + `/${name}`;
    await this.#api.delete(path);
    await waitFor(async () => (await this.#api.find(path)) === undefined, { message: `${path} to be gone` });
  }

  async #table(args: readonly string[], shown: string): Promise<void> {
    const { resource, namespace, name, fieldSelector } = target(args);
    const path = collection(resource, namespace);
    const query = { fieldSelector: name === undefined ? fieldSelector : `metadata.name=${name}` };
    const expected = shownRows(shown);
    let actual: Row[] = [];
    const columns = Object.keys(expected[0] ?? {});
    await waitFor(
      async () => {
        actual = tableRows(await this.#api.get(path, { accept: TABLE, query })).map((row) => pick(row, columns));
        return JSON.stringify(actual) === JSON.stringify(expected);
      },
      { message: () => `${args.join(' ')} to show\n${JSON.stringify(expected)}\nand not\n${JSON.stringify(actual)}` },
    );
  }

  /** Prints a value of a Secret: `-o jsonpath='{.data.KEY}' | base64 -d`. */
  async #value(args: readonly string[], shown: string): Promise<void> {
    const { resource, namespace, name } = target(args);
    const key = /^'\{\.data\.(.+)\}'$/.exec((args.find((arg) => arg.startsWith('jsonpath=')) ?? '').slice(9))?.[1];
    let actual: string | undefined;
    await waitFor(
      async () => {
        const object = await this.#api.get(`${collection(resource, namespace)}/${name}`);
        actual = Buffer.from(object.data?.[key ?? ''] ?? '', 'base64').toString();
        return actual === shown;
      },
      { message: () => `${args.join(' ')} to be "${shown}" and not "${actual}"` },
    );
  }

  async #put(args: readonly string[]): Promise<void> {
    const { vault, path, rest } = this.#vaultOf(args);
    await vault.request('POST', path, { data: Object.fromEntries(rest.map((pair) => pair.split('=', 2))) });
  }

  /** Prints the values of an entry, or its keys: `-format=json … | jq -c .data.data`. */
  async #entry(args: readonly string[], keysOnly: boolean, shown: string): Promise<void> {
    const { vault, path } = this.#vaultOf(args);
    let actual = '';
    await waitFor(
      async () => {
        const { data } = (await vault.request('GET', path)).data;
        actual = JSON.stringify(keysOnly ? Object.keys(data).toSorted() : sorted(data));
        return actual === shown;
      },
      { message: () => `${args.join(' ')} to show ${shown} and not ${actual}` },
    );
  }

  #vaultOf(args: readonly string[]): { vault: VaultServer; path: string; rest: readonly string[] } {
    const address = args.find((arg) => arg.startsWith('-address='))?.slice('-address='.length);
    const vault = this.#vaults[address ?? 'https://vault.example.com'];
    const [entry = '', ...rest] = args.filter((arg) => !arg.startsWith('-'));
    if (vault === undefined) throw new Error(`no Vault at ${address}`);
    return { vault, path: entry.replace('/', '/data/'), rest };
  }
}

function target(args: readonly string[]): {
  resource: string;
  namespace: string | undefined;
  name: string | undefined;
  fieldSelector: string;
} {
  const after = (flag: string): string | undefined => {
    const at = args.indexOf(flag);
    return at === -1 ? undefined : args[at + 1];
  };
  const namespace = args.includes('-A') ? undefined : (after('-n') ?? 'default');
  const flags = new Set([after('-n'), after('--field-selector'), after('-o')]);
  const [resource = '', name] = args.filter((arg) => !arg.startsWith('-') && !flags.has(arg));
  return { resource, namespace, name, fieldSelector: after('--field-selector') ?? '' };
}

function collection(resource: string, namespace: string | undefined): string {
  const group = GROUPS[resource];
  if (group === undefined)
    throw new Error(`the documentation has a resource that this test does not support: ${resource}`);
  return namespace === undefined ? `${group}/${resource}` : `${group}/namespaces/${namespace}/${resource}`;
}

/** The rows of a printed table, without the columns that differ in every run. Each row has its values by column. */
function shownRows(text: string): Row[] {
  const [header = '', ...lines] = text.split('\n');
  const columns = [...header.matchAll(/\S+(?: \S+)*/g)].map(({ 0: name, index }) => ({ name, index }));
  return lines.map((line) =>
    pick(
      Object.fromEntries(
        columns.map(({ name, index }, i) => [name, line.slice(index, columns[i + 1]?.index ?? line.length).trim()]),
      ),
      columns.map(({ name }) => name),
    ),
  );
}

function tableRows({ columnDefinitions, rows }: Json): Row[] {
  return rows.map(({ cells, object }: Json) => ({
    NAMESPACE: object.metadata.namespace,
    ...Object.fromEntries(columnDefinitions.map(({ name }: Json, i: number) => [name.toUpperCase(), String(cells[i])])),
  }));
}

function pick(row: Row, columns: readonly string[]): Row {
  return Object.fromEntries(
    columns.filter((name) => !VARIABLE_COLUMNS.has(name)).map((name) => [name, row[name] ?? '']),
  );
}

function sorted(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).toSorted(([a], [b]) => (a < b ? -1 : 1)));
}
