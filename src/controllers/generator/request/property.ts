/**
 * Finds a property as ESO does: the exact key first, then a path of gjson (github.com/tidwall/gjson) into the JSON of the entry.
 * Only plain paths are followed. The results of other paths of gjson are not known.
 */
import { isJsonObject, type JsonValue } from '../../../vault/json.ts';
import type { VaultValues } from '../../../vault/kv/values.ts';

/** `nested`: ESO finds it inside another property. `unknown`: the path has signs of gjson that are not evaluated here. */
export type PropertyState = 'present' | 'absent' | 'nested' | 'unknown';

/** Queries, modifiers, wildcards, multipaths, literals and escapes of gjson. */
const GJSON_SIGNS = /[*?|#@!{}[\]()\\"]/;

/** @param values `undefined`: there is no entry */
export function findProperty(values: VaultValues | undefined, property: string): PropertyState {
  if (values?.get(property) !== undefined) return 'present';
  if (GJSON_SIGNS.test(property) || property.startsWith('.') || property.endsWith('.')) return 'unknown';
  if (values === undefined || !property.includes('.')) return 'absent';
  const [first = '', ...rest] = property.split('.');
  let found: JsonValue | undefined = values.get(first);
  for (const part of rest) found = memberOf(found, part);
  return found === undefined ? 'absent' : 'nested';
}

function memberOf(value: JsonValue | undefined, part: string): JsonValue | undefined {
  if (Array.isArray(value)) return /^\d{1,9}$/.test(part) ? (value as readonly JsonValue[])[Number(part)] : undefined;
  return isJsonObject(value) && Object.hasOwn(value, part) ? value[part] : undefined;
}
