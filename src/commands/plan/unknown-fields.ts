/** Finds fields of a manifest that its CRD lacks. These are typing mistakes: the server drops them without an error. */
import { parseAllDocuments } from 'yaml';
import { isMap, type Manifest } from './manifests.ts';

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  /** The schema of each value in a map. */
  readonly additionalProperties?: Schema;
  /** The schema of each item in a list. */
  readonly items?: Schema;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
}

interface Definition {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly kind: string };
    readonly versions: readonly { readonly name: string; readonly schema: { readonly openAPIV3Schema: Schema } }[];
  };
}

/** The schemas by apiVersion and kind: `mirrors.kts.studio/v1alpha2 SecretMirror`. */
export type Schemas = ReadonlyMap<string, Schema>;

/** @param crds CustomResourceDefinitions as YAML documents */
export function schemasIn(crds: string): Schemas {
  const definitions = parseAllDocuments(crds).map((document) => document.toJS() as Definition);
  return new Map(
    definitions.flatMap(({ spec: { group, names, versions } }) =>
      versions.map(({ name, schema }) => [`${group}/${name} ${names.kind}`, schema.openAPIV3Schema] as const),
    ),
  );
}

/** One sentence for each unknown field. It names the field with its path. */
export function unknownFields({ kind, object }: Manifest, schemas: Schemas): string[] {
  const schema = schemas.get(kind);
  return schema === undefined ? [] : [...unknownIn(object, schema, '')];
}

function* unknownIn(value: unknown, schema: Schema, path: string): Iterable<string> {
  const { properties = {}, additionalProperties, items = {} } = schema;
  // The CRD does not describe metadata. The server checks them by a schema of its own.
  if (path === 'metadata' || schema['x-kubernetes-preserve-unknown-fields'] === true) return;
  if (Array.isArray(value)) {
    for (const [index, item] of value.entries()) yield* unknownIn(item, items, `${path}[${index}]`);
  } else if (isMap(value)) {
    for (const [name, inner] of Object.entries(value)) {
      const field = path === '' ? name : `${path}.${name}`;
      const known = Object.hasOwn(properties, name) ? properties[name] : additionalProperties;
      if (known !== undefined) yield* unknownIn(inner, known, field);
      else yield `unknown field ${field}, which the API server drops; known are ${Object.keys(properties).join(', ')}`;
    }
  }
}
