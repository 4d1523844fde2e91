/**
 * Gives all names in a report other names, which are the same within one report and tell nothing beyond it. Of all other
 * texts only those stay that are known to have no name in them: kinds, states, reasons, times.
 */
import { createHmac, randomBytes } from 'node:crypto';

import type { PageData } from '../data.ts';

const LEFT_OUT = '(left out)';
const TIMES: ReadonlySet<string> = new Set(['at', 'since', 'lastSyncTime']);
/** Fields that have one word of the API. A longer text, such as the reason of an orphan, may have names in it. */
const WORDS: ReadonlySet<string> = new Set(['system', 'kind', 'state', 'reason', 'action', 'verdict']);

export function redacted(data: PageData): PageData {
  // Nobody has this key afterwards, so nobody can find out a name by trying.
  const secret = randomBytes(32);
  const other = (type: string, name: string): string =>
    `${type}-${createHmac('sha256', secret).update(`${type} ${name}`).digest('hex').slice(0, 12)}`;
  const text = (field: string, value: string): string => {
    if (value === '' || field === 'message' || field === 'sourceVersion') return '';
    if (field === 'namespace') return other('namespace', value);
    if (field === 'name' || field === 'id') return other('name', value);
    return TIMES.has(field) || (WORDS.has(field) && /^[A-Za-z-]+$/.test(value)) ? value : LEFT_OUT;
  };
  const walked = <T>(field: string, value: T): T => {
    if (typeof value === 'string') return text(field, value) as T;
    if (typeof value !== 'object' || value === null) return value;
    if (!Array.isArray(value)) {
      const fieldOf = (key: string): string => (field === 'namespaces' && key === 'name' ? 'namespace' : key);
      return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, walked(fieldOf(key), one)])) as T;
    }
    // Lists are sorted by name, and so would tell the order of the names.
    const keyed = value.map((one) => walked(field, one) as unknown).map((one) => [JSON.stringify(one), one] as const);
    return keyed.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one) as T;
  };
  const { advice, ruleNames, notes } = data;
  const left = notes.length === 0 ? [] : [`${notes.length} notes of the command are left out.`];
  return { ...walked('', { ...data, advice: {} }), advice, ruleNames, notes: left };
}
