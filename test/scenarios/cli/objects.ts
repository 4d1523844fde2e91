/** Objects for the tests of the commands. */
export function namespace(name: string) {
  return { apiVersion: 'v1', kind: 'Namespace', metadata: { name } };
}

export function secret(inNamespace: string, name: string, value: string, more: object = {}) {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace: inNamespace },
    stringData: { password: value },
    ...more,
  };
}

export function mirror(name: string, source: string, patterns: readonly string[], spec: object = {}) {
  return {
    apiVersion: 'mirrors.kts.studio/v1alpha2',
    kind: 'SecretMirror',
    metadata: { name, namespace: 'default' },
    spec: { source: { name: source }, destination: { namespaces: patterns }, ...spec },
  };
}
