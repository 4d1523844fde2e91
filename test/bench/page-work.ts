/**
 * The objects for the page: 400 SecretMirrors with 20,337 copies in 500 namespaces. 40 go into all of them, and 360 into
 * one each. In 23 namespaces another object has the name of a copy.
 */
import type { TestApi } from '../support/api.ts';
import { namespaceObject, numbered, sourceSecret } from './workload.ts';

const HOME = 'page-sources';
const NAMESPACES = numbered('page-', 500);
const [WIDE, NARROW] = [numbered('wide-', 40), numbered('narrow-', 360)];
const TAKEN = NAMESPACES.slice(100, 123);
export const RULES = WIDE.length + NARROW.length;
export const MIRRORS_PATH = `/apis/mirrors.kts.studio/v1alpha2/namespaces/${HOME}/secretmirrors`;

export const pageMirror = (name: string, source: string, pattern: string) => ({
  apiVersion: 'mirrors.kts.studio/v1alpha2',
  kind: 'SecretMirror',
  metadata: { name, namespace: HOME },
  spec: { source: { name: source }, destination: { namespaces: [pattern] } },
});

export async function makeRules(api: TestApi, generation: string): Promise<void> {
  await api.createMany([HOME, ...NAMESPACES].map(namespaceObject));
  await api.createMany(TAKEN.map((namespace) => sourceSecret(WIDE[0] ?? '', namespace, 'of a user')));
  await api.createMany([...WIDE, ...NARROW].map((name) => sourceSecret(name, HOME, generation)));
  await api.createMany(WIDE.map((name) => pageMirror(name, name, String.raw`page-\d+`)));
  await api.createMany(NARROW.map((name, at) => pageMirror(name, name, NAMESPACES[at] ?? '')));
}

/** The keys of all copies, by namespace and name. */
export function pageCopies(): string[] {
  const wide = WIDE.flatMap((name, at) =>
    NAMESPACES.filter((namespace) => at > 0 || !TAKEN.includes(namespace)).map((namespace) => `${namespace}/${name}`),
  );
  return [...wide, ...NARROW.map((name, at) => `${NAMESPACES[at]}/${name}`)];
}
