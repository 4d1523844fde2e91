/**
 * From the JSON schema that zod emits to the *structural* schema that a CustomResourceDefinition must hold.
 *
 * What has no structural counterpart is an error, not a guess: such a schema would be refused by the API server, or, worse,
 * accepted and mean something else. Choices between fields belong into validation rules, not into `oneOf`.
 */
import { z } from 'zod';

/** A JSON-schema node, as far as this file reads it; all other keywords pass through. */
export interface SchemaNode {
  type?: string;
  properties?: Record<string, SchemaNode>;
  items?: SchemaNode;
  additionalProperties?: SchemaNode | boolean;
  anyOf?: SchemaNode[];
  [keyword: string]: unknown;
}

/** Keywords with no place in a structural schema, or that zod emits for shapes which this project does not write. */
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
 * The structural schema of what users write (`io: 'input'`: defaults are optional).
 * @throws Error that names the path of a node which cannot be expressed.
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
      `schema at ${path || '/'}: the API server prunes unknown fields, it cannot refuse them (strictObject)`,
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

/** zod bounds every integer by what a JavaScript number holds exactly; the API's integers are int64. */
function withoutSafeIntegerBounds(node: SchemaNode): SchemaNode {
  const result = { ...node };
  if (result['minimum'] === Number.MIN_SAFE_INTEGER) delete result['minimum'];
  if (result['maximum'] === Number.MAX_SAFE_INTEGER) delete result['maximum'];
  return result;
}
