/**
 * Generates the descriptions in the JSON Schema of the chart's values. They are the comments in values.yaml, so that an
 * editor shows what the file says. Of properties without a comment there, the schema has the description itself.
 */
import { readFileSync } from 'node:fs';
import { isMap, isScalar, parseDocument, type YAMLMap } from 'yaml';

import { textOf } from './chart-readme.ts';

const CHART = 'deploy/helm/keyferry';

interface Schema {
  description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
}

/** Path and content of the schema. */
export function chartSchema(): [string, string] {
  const read = (file: string): string => readFileSync(new URL(`../../${CHART}/${file}`, import.meta.url), 'utf8');
  const schema = JSON.parse(read('values.schema.json')) as Schema;
  const { contents } = parseDocument(read('values.yaml'));
  if (isMap(contents)) describe(schema, contents);
  return [`${CHART}/values.schema.json`, formatted(schema)];
}

/** Copies the comments of a map and of the maps in it into the schema. */
function describe(schema: Schema, map: YAMLMap): void {
  for (const [index, { key, value }] of map.items.entries()) {
    const property = isScalar(key) ? schema.properties?.[String(key.value)] : undefined;
    if (property === undefined || !isScalar(key)) continue;
    const comment = key.commentBefore ?? (index === 0 ? map.commentBefore : undefined);
    // The first comment of the file begins with a paragraph about the whole file.
    const text = textOf(comment?.split('\n\n').at(-1));
    if (text !== '') property.description = text;
    if (isMap(value)) describe(property, value);
  }
}

/** JSON as the formatter writes it: an array of plain values is in one line. */
function formatted(schema: Schema): string {
  const json = JSON.stringify(schema, undefined, 2);
  return `${json.replaceAll(/\[\n\s+([^[\]{}]*?)\n\s+\]/g, (_, inner: string) => `[${inner.replaceAll(/,\n\s+/g, ', ')}]`)}\n`;
}
