/**
 * The calls that the bare client sends. They are the same writes as in the rows of the table, but into namespaces that
 * no rule selects.
 */
import type { BareCall } from './bare-client.ts';
import { bareNamespaces, generationPatch, secretsPath, sourceNames, sourceSecret } from './workload.ts';

export function bareCreate(names: readonly string[] = sourceNames()): BareCall[] {
  return bareCreateInto(bareNamespaces(), names);
}

export function bareCreateInto(namespaces: readonly string[], names: readonly string[] = sourceNames()): BareCall[] {
  return namespaces.flatMap((namespace) =>
    names.map((name) => ({
      method: 'POST' as const,
      path: secretsPath(namespace),
      body: JSON.stringify(sourceSecret(name, namespace, '1')),
    })),
  );
}

export function bareUpdate(names: readonly string[], namespaces: readonly string[] = bareNamespaces()): BareCall[] {
  const body = JSON.stringify(generationPatch('2'));
  return paths(names, namespaces).map((path) => ({ method: 'PATCH', path, body }));
}

export function bareRemove(names: readonly string[] = sourceNames()): BareCall[] {
  return paths(names, bareNamespaces()).map((path) => ({ method: 'DELETE', path }));
}

function paths(names: readonly string[], namespaces: readonly string[]): string[] {
  return namespaces.flatMap((namespace) => names.map((name) => `${secretsPath(namespace)}/${name}`));
}
