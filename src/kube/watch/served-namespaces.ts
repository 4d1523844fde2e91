/** The namespaces that the process serves, if `--namespaces` names them. */
export class ServedNamespaces {
  readonly names: readonly string[];
  /** For messages, after "the namespaces": `that Keyferry serves (--namespaces)`, `of --namespaces`. */
  readonly which: string;

  /** @param by `command`: the flag belongs to a command such as `plan`, so messages do not mention the operator */
  constructor(names: readonly string[], by?: 'command') {
    this.names = [...new Set(names)];
    this.which = by === 'command' ? 'of --namespaces' : 'that Keyferry serves (--namespaces)';
  }

  /** @returns `undefined`, if there is no name: all namespaces are served */
  static of(names: readonly string[], by?: 'command'): ServedNamespaces | undefined {
    return names.length === 0 ? undefined : new ServedNamespaces(names, by);
  }

  has(namespace: string): boolean {
    return this.names.includes(namespace);
  }
}
