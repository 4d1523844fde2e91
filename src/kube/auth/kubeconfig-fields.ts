/** Reads the fields of a kubeconfig. Errors name file and field, and never the value of a secret field. */

/** Something in a kubeconfig is wrong or missing. */
export class KubeconfigError extends Error {
  override readonly name = 'KubeconfigError';

  /** @param where file and field: `/home/x/.kube/config: users[name=x].user.token` */
  constructor(where: string, why: string, options?: ErrorOptions) {
    super(`${where}: ${why}`, options);
  }
}

/** A mapping in a kubeconfig, with its path. As in kubectl, `null` and `''` count as not set. */
export class Fields {
  readonly file: string;
  /** `users[name=x].user`; empty for the file's top. */
  readonly path: string;
  readonly #values: Readonly<Record<string, unknown>>;

  /** @throws KubeconfigError if the value is no mapping; nothing (`null`) is an empty one */
  constructor(file: string, path: string, value: unknown) {
    this.file = file;
    this.path = path;
    if (value !== undefined && value !== null && (typeof value !== 'object' || Array.isArray(value))) {
      throw this.error('', `must be a mapping, is ${kindOf(value)}`);
    }
    this.#values = (value ?? {}) as Readonly<Record<string, unknown>>;
  }

  has(name: string): boolean {
    const value = this.#values[name];
    return value !== undefined && value !== null && value !== '';
  }

  string(name: string): string | undefined {
    if (!this.has(name)) return undefined;
    const value = this.#values[name];
    if (typeof value !== 'string') throw this.error(name, `must be a string, is ${kindOf(value)}`);
    return value;
  }

  required(name: string): string {
    const value = this.string(name);
    if (value === undefined) throw this.error(name, 'is missing');
    return value;
  }

  boolean(name: string): boolean {
    if (!this.has(name)) return false;
    const value = this.#values[name];
    if (typeof value !== 'boolean') throw this.error(name, `must be true or false, is ${kindOf(value)}`);
    return value;
  }

  /** Bytes in base64, as in the `…-data` fields. */
  base64(name: string): Buffer | undefined {
    const text = this.string(name)?.replace(/\s+/gu, '');
    if (text === undefined) return undefined;
    if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]+={0,2}$/u.test(text)) throw this.error(name, 'is not base64');
    return Buffer.from(text, 'base64');
  }

  strings(name: string): string[] {
    return this.list(name).map((value, index) => {
      if (typeof value !== 'string') throw this.error(`${name}[${index}]`, `must be a string, is ${kindOf(value)}`);
      return value;
    });
  }

  /** Values of a mapping from strings to lists of strings. */
  stringLists(name: string): [string, string[]][] {
    const inner = this.fields(name);
    return inner.names.map((key) => [key, inner.strings(key)]);
  }

  list(name: string): readonly unknown[] {
    const value = this.#values[name];
    if (value === undefined || value === null) return [];
    if (!Array.isArray(value)) throw this.error(name, `must be a list, is ${kindOf(value)}`);
    return value;
  }

  fields(name: string): Fields {
    return new Fields(this.file, this.at(name), this.#values[name]);
  }

  get names(): readonly string[] {
    return Object.keys(this.#values);
  }

  raw(name: string): unknown {
    return this.#values[name];
  }

  at(name: string): string {
    if (name === '') return this.path;
    return this.path === '' ? name : `${this.path}.${name}`;
  }

  error(name: string, why: string): KubeconfigError {
    const at = this.at(name);
    return new KubeconfigError(at === '' ? this.file : `${this.file}: ${at}`, why);
  }
}

function kindOf(value: unknown): string {
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a mapping';
  return `a ${typeof value}`;
}
