/** The page with the fields of the custom resources, from the schemas that their definitions are made of. */
import { secretMirrorDefinition } from '../crd/secret-mirror-definition.ts';
import type { SchemaNode } from '../crd/structural.ts';
import { syncSecretDefinition } from '../crd/sync-secret-definition.ts';
import { code, table } from './pages.ts';

interface Definition {
  readonly spec: {
    readonly group: string;
    readonly names: { readonly kind: string };
    readonly versions: readonly {
      readonly name: string;
      readonly storage: boolean;
      readonly schema: { readonly openAPIV3Schema: SchemaNode };
    }[];
  };
}

/** The parts of the page, which an empty line separates. */
export function fieldsPage(): string[] {
  const definitions = [secretMirrorDefinition, syncSecretDefinition] as unknown as readonly Definition[];
  return [
    '# Fields of the custom resources',
    'As `kubectl explain --recursive` shows them. The API server refuses an object with one of the errors in the last column.',
    ...definitions.flatMap(({ spec }) => {
      const { name, schema } = spec.versions.find(({ storage }) => storage) ?? {};
      if (schema === undefined) return [];
      const rows = rowsOf(schema.openAPIV3Schema, '');
      const head = ['field', 'type', 'default', ''];
      return [`## ${spec.names.kind}`, `\`apiVersion: ${spec.group}/${name}\``, table(head, rows)];
    }),
  ];
}

/** Fields of every object. */
const COMMON = new Set(['apiVersion', 'kind', 'metadata']);

/** @param prefix the path of the object that has the fields: `spec.` */
export function rowsOf({ properties = {}, required }: SchemaNode, prefix: string): string[][] {
  const needed = new Set(required as readonly string[] | undefined);
  return Object.entries(properties).flatMap(([name, node]) => {
    if (prefix === '' && COMMON.has(name)) return [];
    const path = `${prefix}${name}`;
    const inner = node.items ?? node;
    const text = [node['description'], needed.has(name) ? 'Required.' : '', errorsOf(node)];
    const value = node['default'] === undefined ? '' : code(JSON.stringify(node['default']));
    const own = [code(path), typeOf(node), value, text.filter(Boolean).join(' ')];
    return [own].concat(rowsOf(inner, `${path}${node.items === undefined ? '.' : '[].'}`));
  });
}

function typeOf(node: SchemaNode): string {
  const { type = 'any value', items, enum: choices } = node;
  if (Array.isArray(choices)) return choices.map((choice) => code(String(choice))).join(', ');
  if (items !== undefined) return `list of ${typeOf(items)}`;
  if (typeof node.additionalProperties === 'object') return `map of ${typeOf(node.additionalProperties)}`;
  return type;
}

/** The errors of the validation rules of a field. */
function errorsOf(node: SchemaNode): string {
  const rules = (node['x-kubernetes-validations'] ?? []) as readonly { readonly message?: string }[];
  const errors = rules.flatMap(({ message }) => (message === undefined ? [] : [message]));
  return errors.length === 0 ? '' : `Errors: ${errors.join('; ')}.`;
}
