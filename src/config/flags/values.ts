/** Parsers for flags and environment variables. They throw a RangeError with the rule for valid values. */
import { isLabelValue, isMetadataKey } from '../../runtime/text/dns-names.ts';

const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  // Go accepts two characters for micro. They are escaped: otherwise V8 would store the whole bundle as two-byte text.
  '\u00b5s': 1e-3,
  '\u03bcs': 1e-3,
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};

/** The longest `time.Duration` of Go: 2^63-1 ns. */
const MAX_DURATION_MS = 9_223_372_036_854;

/** Parses a Go duration (`30m`, `1h2m3.5s`, `-1s`, `0`) to ms. It may exceed Node's longest timer, 24.8 days. */
export function parseDuration(text: string): number {
  const match = /^([+-]?)((?:(?:\d+\.?\d*|\.\d+)(?:ns|us|\u00b5s|\u03bcs|ms|s|m|h))+|0)$/.exec(text);
  const amount = match?.[2];
  if (amount === undefined) throw new RangeError('must be a duration with unit, for example 30m, 1h2m3.5s or 500ms');
  let total = 0;
  for (const [, number, unit] of amount.matchAll(/([\d.]+)([a-z\u00b5\u03bc]+)/g)) {
    total += Number(number) * (UNIT_MS[unit ?? ''] ?? Number.NaN);
  }
  if (!(total <= MAX_DURATION_MS)) throw new RangeError('must be a duration of at most 2562047h');
  return match?.[1] === '-' ? -total : total;
}

export function parseCount(text: string, min: number, max: number): number {
  const value = Number(text);
  if (!/^\d{1,15}$/.test(text) || value < min || value > max) {
    throw new RangeError(`must be a whole number from ${min} to ${max}`);
  }
  return value;
}

/** Splits a comma-separated list. Drops spaces around items, empty items and duplicates. */
export function parseList(text: string): string[] {
  const items = text.split(',').map((item) => item.trim());
  return [...new Set(items.filter((item) => item !== ''))];
}

/** Parses labels, `k=v,k=v`, by the rules of Kubernetes. The empty text means no labels. */
export function parseLabels(text: string): Readonly<Record<string, string>> {
  const labels: [string, string][] = [];
  for (const item of text.split(',').map((part) => part.trim())) {
    if (item === '' && text.trim() === '') continue;
    const [key = '', value, ...more] = item.split('=').map((part) => part.trim());
    if (value === undefined || more.length > 0) throw new RangeError('must be labels as key=value,key=value');
    if (!isMetadataKey(key)) throw new RangeError(`${JSON.stringify(key)} is not a valid label key`);
    if (!isLabelValue(value)) throw new RangeError(`${JSON.stringify(value)} is not a valid label value`);
    labels.push([key, value]);
  }
  return Object.fromEntries(labels);
}
