/**
 * Converts the JSON schema of zod to a *structural* schema, which a CustomResourceDefinition requires.
 *
 * If a schema has no structural equivalent, the conversion fails, because the API server would reject the schema or,
 * worse, read it differently. For alternatives between fields, use validation rules in place of `oneOf`.
 */
import { z } from 'zod';

/** A node of a JSON schema. The conversion copies other keywords than these unchanged. */
export interface SchemaNode {
  type?: string;
  properties?: Record<string, SchemaNode>;
  items?: SchemaNode;
  additionalProperties?: SchemaNode | boolean;
  anyOf?: SchemaNode[];
  [keyword: string]: unknown;
}

/** Keywords that a structural schema cannot have, or that zod writes only for types that no schema here uses. */
const REFUSED = [
  '$ref',
  '$defs',
  'definitions',
  'allOf',
  'anyOf',
  'oneOf',
  'not',
  'const',
  'patternProperties',
  'propertyNames',
];

/**
 * Converts the schema of an object as users write it (`io: 'input'`): fields with a default are optional.
 * @throws Error with the path of a node that has no structural equivalent
 */
export function toStructuralSchema(schema: z.ZodType): SchemaNode {
  return convert(z.toJSONSchema(schema, { target: 'openapi-3.0', io: 'input' }) as SchemaNode, '');
}

function convert(node: SchemaNode, path: string): SchemaNode {
  if (isIntOrString(node)) {
    const { anyOf: _choice, ...rest } = node;
    return { ...rest, 'x-kubernetes-int-or-string': true };
  }
  const refused = REFUSED.find((keyword) => keyword in node);
  if (refused !== undefined) throw new Error(`schema at ${path || '/'}: a structural schema cannot hold "${refused}"`);
  const result = withoutSafeIntegerBounds(node);
  if (typeof node.additionalProperties === 'object' && isAnything(node.additionalProperties)) {
    delete result.additionalProperties;
    result['x-kubernetes-preserve-unknown-fields'] = true;
  } else if (typeof node.additionalProperties === 'object') {
    result.additionalProperties = convert(node.additionalProperties, `${path}/*`);
  } else if (node.additionalProperties !== undefined) {
    throw new Error(
      `schema at ${path || '/'}: the API server cannot reject unknown fields, it prunes them (strictObject)`,
    );
  }
  if (node.properties && Object.keys(node.properties).length > 0) {
    result.properties = Object.fromEntries(
      Object.entries(node.properties).map(([name, child]) => [name, convert(child, `${path}/${name}`)]),
    );
  } else {
    delete result.properties;
  }
  if (node.items) result.items = convert(node.items, `${path}/[]`);
  if (node.type === undefined && result['x-kubernetes-preserve-unknown-fields'] !== true) {
    throw new Error(`schema at ${path || '/'}: no type`);
  }
  return result;
}

function isIntOrString(node: SchemaNode): boolean {
  const types = node.anyOf?.map((choice) => choice.type).sort();
  return types?.length === 2 && types[0] === 'integer' && types[1] === 'string';
}

function isAnything(node: SchemaNode): boolean {
  return Object.keys(node).length === 0;
}

/**
 * Removes the limits that zod sets for JavaScript's safe integers, because integers of the Kubernetes API are int64.
 */
function withoutSafeIntegerBounds(node: SchemaNode): SchemaNode {
  const result = { ...node };
  if (result['minimum'] === Number.MIN_SAFE_INTEGER) delete result['minimum'];
  if (result['maximum'] === Number.MAX_SAFE_INTEGER) delete result['maximum'];
  return result;
}
