/**
 * The objects in the cluster of the benchmark. There are unrelated Secrets in 200 namespaces, and 20 sources, which are
 * copied into 50 of these namespaces. The row `wide` adds 1,000 namespaces, and 20 sources that are copied into all of
 * them. The row `widest` has 50 sources and 2,000 namespaces instead.
 *
 * Random numbers have a fixed seed, so that all runs measure the same objects. A source has its generation (version of
 * the content) as one of its data keys. So each copy shows its generation, whatever controller has made it.
 */
import type { Json, TestApi } from '../support/api.ts';
import { Random } from '../support/random.ts';

export const SOURCE_NAMESPACE = 'bench-sources';
const TARGET_PATTERN = 'bench-target-.*';
const SOURCES = 20;
const TARGET_NAMESPACES = 50;
const OTHER_NAMESPACES = 150;
const WIDE_NAMESPACES = 1000;
const NOISE_SOURCES = 5000;
const GENERATION_KEY = 'generation';

export const numbered = (prefix: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${prefix}${String(index).padStart(3, '0')}`);

export const sourceNames = (count = SOURCES): string[] => numbered('bench-source-', count);
export const noiseNames = (): string[] => numbered('bench-noise-', NOISE_SOURCES);
export const targetNamespaces = (): string[] => numbered('bench-target-', TARGET_NAMESPACES);
export const otherNamespaces = (): string[] => numbered('bench-other-', OTHER_NAMESPACES);
export const wideNamespaces = (count = WIDE_NAMESPACES): string[] => numbered('bench-wide-', count);

/** Where sources are, and the namespaces for their copies: by name, and the same by label. */
export interface Fleet {
  readonly sourceNamespace: string;
  readonly pattern: string;
  readonly selector: string;
  /** The names of the sources. Default: `sourceNames`. */
  readonly names?: readonly string[];
}

export const FLEET: Fleet = {
  sourceNamespace: SOURCE_NAMESPACE,
  pattern: TARGET_PATTERN,
  selector: 'group=bench-target',
};
export const WIDE_FLEET: Fleet = {
  sourceNamespace: 'bench-sources-wide',
  pattern: 'bench-wide-.*',
  selector: 'group=bench-wide',
};

/**
 * Namespaces for the bare client in the row `wide`. With 400 Secrets in each, it makes as many as the row has copies.
 */
export const wideBareNamespaces = (): string[] => numbered('bench-bare-', TARGET_NAMESPACES);
export const wideBareNames = (): string[] => numbered('bench-source-', (SOURCES * WIDE_NAMESPACES) / TARGET_NAMESPACES);

/** Namespaces for the bare client: as many as the copies have. No rule selects them. */
export const bareNamespaces = (): string[] => otherNamespaces().slice(0, TARGET_NAMESPACES);

export const secretsPath = (namespace: string): string => `/api/v1/namespaces/${namespace}/secrets`;
export const copyKey = (namespace: string, name: string): string => `${namespace}/${name}`;

/** The keys of all copies that a controller must make. */
export function copyKeys(
  namespaces: readonly string[] = targetNamespaces(),
  names: readonly string[] = sourceNames(),
): string[] {
  return namespaces.flatMap((namespace) => names.map((name) => copyKey(namespace, name)));
}

export class Payloads {
  readonly #random = new Random(20_26);
  readonly #noise: Buffer;

  constructor() {
    this.#noise = Buffer.alloc(1024 * 1024);
    for (let at = 0; at < this.#noise.length; at += 4)
      this.#noise.writeUInt32LE((this.#random.next() * 2 ** 32) >>> 0, at);
  }

  /** Random bytes as base64. They cannot be compressed. */
  base64(bytes: number): string {
    const start = Math.floor(this.#random.next() * (this.#noise.length - bytes));
    return this.#noise.subarray(start, start + bytes).toString('base64');
  }

  /** Size of the data in an unrelated Secret, by its index: 0.9 to 4 kB, every 20th 24 kB, every 500th 400 kB. */
  sizeOf(index: number): number {
    if (index % 500 === 499) return 400_000;
    if (index % 20 === 7) return 24_000;
    return 900 + Math.floor(this.#random.next() * 3100);
  }
}

/**
 * Makes the unrelated Secrets. They have no labels, as when the originals were measured: the API server sends each
 * label twice in the metadata.
 */
export function* unrelatedSecrets(count: number): Generator<Json> {
  const payloads = new Payloads();
  const namespaces = [...targetNamespaces(), ...otherNamespaces()];
  for (let index = 0; index < count; index += 1) {
    const bytes = payloads.sizeOf(index);
    yield {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: {
        name: `unrelated-${String(index).padStart(6, '0')}`,
        namespace: namespaces[index % namespaces.length],
      },
      data: { username: payloads.base64(16), payload: payloads.base64(bytes) },
    };
  }
}

/** Its label `group` is its name without the number, for rules that select by labels. */
export function namespaceObject(name: string): Json {
  const group = name.replace(/-(?:late-)?\d+$/u, '');
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels: { group } } };
}

/** The data of a source: about 1.5 kB of values, and its generation. */
export function sourceData(name: string, generation: string): Record<string, string> {
  const seed = Number(name.slice(-3));
  const random = new Random(seed);
  const value = (bytes: number): string =>
    Buffer.from(Array.from({ length: bytes }, () => Math.floor(random.next() * 256))).toString('base64');
  return { [GENERATION_KEY]: encode(generation), username: value(24), password: value(48), certificate: value(1400) };
}

/** A merge patch that changes the generation of a source or a copy. */
export function generationPatch(generation: string): Json {
  return { data: { [GENERATION_KEY]: encode(generation) } };
}

/** The generation of a source or a copy, from its data. */
export function generationOf(secret: Json): string {
  return Buffer.from(secret.data?.[GENERATION_KEY] ?? '', 'base64').toString();
}

function encode(text: string): string {
  return Buffer.from(text).toString('base64');
}

export function sourceSecret(
  name: string,
  namespace: string,
  generation: string,
  annotations: Record<string, string> = {},
): Json {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'Opaque',
    metadata: { name, namespace, annotations },
    data: sourceData(name, generation),
  };
}

/** Creates the namespaces and the unrelated Secrets. */
export async function seed(api: TestApi, unrelated: number, onProgress: (line: string) => void): Promise<void> {
  const namespaces = [SOURCE_NAMESPACE, ...targetNamespaces(), ...otherNamespaces()];
  await api.createMany(namespaces.map(namespaceObject));
  let made = 0;
  const counted = function* (): Generator<Json> {
    for (const secret of unrelatedSecrets(unrelated)) {
      yield secret;
      made += 1;
      if (made % 5000 === 0) onProgress(`${made} of ${unrelated} unrelated Secrets`);
    }
  };
  await api.createMany(counted(), 24);
}
