const WHICH = {
  operator: 'that Keyferry serves (--namespaces)',
  /** The flag belongs to a command such as `plan`. */
  command: 'of --namespaces',
  /** The caller of a command has no rights on others. */
  rights: 'that this command may read',
} as const;

/** The namespaces that the process serves, if `--namespaces` names them. */
export class ServedNamespaces {
  readonly names: readonly string[];
  /** For messages, after "the namespaces". */
  readonly which: string;

  /** @param by whose choice the names are, for messages */
  constructor(names: readonly string[], by: keyof typeof WHICH = 'operator') {
    this.names = [...new Set(names)];
    this.which = WHICH[by];
  }

  /** @returns `undefined`, if there is no name: all namespaces are served */
  static of(names: readonly string[], by?: keyof typeof WHICH): ServedNamespaces | undefined {
    return names.length === 0 ? undefined : new ServedNamespaces(names, by);
  }

  has(namespace: string): boolean {
    return this.names.includes(namespace);
  }
}
