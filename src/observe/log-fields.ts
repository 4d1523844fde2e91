/**
 * The fields of a log line. Other names, and values of another type, are dropped when the line is written, even if the types
 * at the call allow them. So an object, and with it a Secret, cannot be logged.
 */
import { cap, errorFields, type ErrorFields } from './error-fields.ts';

const TEXT_FIELDS = [
  'controller',
  'system',
  'cluster',
  'kind',
  'namespace',
  'name',
  'mirror',
  'target',
  'source',
  'rule',
  'reason',
  'phase',
  'watch',
  'verb',
  'queue',
  'vault',
  'lease',
  'identity',
  'leader',
  'address',
  'path',
  'file',
  'flag',
  'signal',
  'version',
  'node',
  'advice',
] as const;

const NUMBER_FIELDS = ['attempt', 'durationMs', 'retryInMs', 'count', 'bytes', 'pid', 'status'] as const;

const FLAG_FIELDS = ['synced', 'ready'] as const;

type Of<Names extends readonly string[], Value> = { readonly [Name in Names[number]]?: Value | undefined };

/** Fields of one log line. Durations in ms. Never a value of a Secret, also not in a text field. */
export type LogFields = Of<typeof TEXT_FIELDS, string> &
  Of<typeof NUMBER_FIELDS, number> &
  Of<typeof FLAG_FIELDS, boolean> & {
    /** Any thrown value; only its printable fields are written. */
    readonly error?: unknown;
  };

/** The fields after the check, ready to be written. */
export type CheckedFields = Record<string, string | number | boolean | ErrorFields>;

const MAX_TEXT = 512;

type FieldKind = 'string' | 'number' | 'boolean';

const KIND_OF: ReadonlyMap<string, FieldKind> = new Map<string, FieldKind>([
  ...TEXT_FIELDS.map((name) => [name, 'string'] as const),
  ...NUMBER_FIELDS.map((name) => [name, 'number'] as const),
  ...FLAG_FIELDS.map((name) => [name, 'boolean'] as const),
]);

/** Keeps the fields that may be logged. `withStack` as in `errorFields`. Never throws. */
export function checkFields(fields: LogFields, withStack: boolean): CheckedFields {
  const checked: CheckedFields = {};
  if (typeof fields !== 'object' || fields === null) return checked;
  for (const [name, value] of Object.entries<unknown>(fields)) {
    if (name === 'error') {
      if (value !== undefined) checked['error'] = errorFields(value, withStack);
    } else if (typeof value === KIND_OF.get(name)) {
      checked[name] = printable(value as string | number | boolean);
    }
  }
  return checked;
}

/** Numbers are rounded. */
function printable(value: string | number | boolean): string | number | boolean {
  if (typeof value === 'string') return cap(value, MAX_TEXT);
  return typeof value === 'number' ? Math.round(value) : value;
}
