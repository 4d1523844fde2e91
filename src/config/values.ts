/** Reads the texts that flags and environment variables hold. Each throws a RangeError saying what would be right. */
import { isSubdomain } from '../runtime/dns-names.ts';

const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  // Both signs for micro that Go takes. Escaped: one letter beyond ASCII makes V8 hold the whole bundle in two bytes a letter.
  '\u00b5s': 1e-3,
  '\u03bcs': 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** The largest `time.Duration`: 2^63-1 ns. */
const MAX_DURATION_MS = 9_223_372_036_854;

/** A Go duration (`30m`, `1h2m3.5s`, `-1s`, `0`) in ms. May be more than a timer of Node can wait (24.8 days). */
export function parseDuration(text: string): number {
  const match = /^([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|\u00b5s|\u03bcs|ms|s|m|h))+|0)$/.exec(text);
  const amount = match?.[2];
  if (amount === undefined) throw new RangeError('must be a duration with unit, as 30m, 1h2m3.5s or 500ms');
  let total = 0;
  for (const [, number, unit] of amount.matchAll(/([\d.]+)([a-z\u00b5\u03bc]+)/g)) {
    total += Number(number) * (UNIT_MS[unit ?? ''] ?? Number.NaN);
  }
  if (!(total <= MAX_DURATION_MS)) throw new RangeError('must be a duration of at most 2562047h');
  return match?.[1] === '-' ? -total : total;
}

/** A whole number within bounds. */
export function parseCount(text: string, min: number, max: number): number {
  const value = Number(text);
  if (!/^\d{1,15}$/.test(text) || value < min || value > max) {
    throw new RangeError(`must be a whole number, ${min} to ${max}`);
  }
  return value;
}

/** A comma list; spaces around the items and empty items are dropped, repeated items are kept once. */
export function parseList(text: string): string[] {
  const items = text.split(',').map((item) => item.trim());
  return [...new Set(items.filter((item) => item !== ''))];
}

const LABEL_NAME = /^[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?$/;
const LABEL_VALUE = /^(?:[A-Za-z0-9](?:[-\w.]{0,61}[A-Za-z0-9])?)?$/;

/** Labels as `k=v,k=v`; the empty text gives none. Names and values follow the rules for Kubernetes labels. */
export function parseLabels(text: string): Readonly<Record<string, string>> {
  const labels: [string, string][] = [];
  for (const item of text.split(',').map((part) => part.trim())) {
    if (item === '' && text.trim() === '') continue;
    const [key = '', value, ...more] = item.split('=').map((part) => part.trim());
    if (value === undefined || more.length > 0) throw new RangeError('must be labels as key=value,key=value');
    const slash = key.indexOf('/');
    if (!LABEL_NAME.test(key.slice(slash + 1)) || (slash !== -1 && !isSubdomain(key.slice(0, slash)))) {
      throw new RangeError(`${JSON.stringify(key)} cannot be a label's key`);
    }
    if (!LABEL_VALUE.test(value)) throw new RangeError(`${JSON.stringify(value)} cannot be a label's value`);
    labels.push([key, value]);
  }
  return Object.fromEntries(labels);
}
