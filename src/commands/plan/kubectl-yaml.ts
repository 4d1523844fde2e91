/** YAML as kubectl reads it: version 1.1, so that merge keys work and `yes` is true, but with the numbers of go-yaml and without times. Pure. */
import type { ScalarTag, Tags } from 'yaml';

/** Without the prefix of another base. The library takes `e1` for a number, and go-yaml does not. */
const DECIMAL = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/;
const OTHER_BASE = /^([-+]?)(0[xbo][\da-f]+)$/i;

/** What the integers of the library leave over. */
const NUMBER: ScalarTag = {
  default: true,
  tag: 'tag:yaml.org,2002:float',
  test: /^[-+]?\.?\d/,
  resolve: (text) => {
    const plain = text.replaceAll('_', '');
    const [, sign, digits] = OTHER_BASE.exec(plain) ?? [];
    const number = digits === undefined ? (DECIMAL.test(plain) ? Number(plain) : Number.NaN) : Number(digits);
    // A number that is too large is a text, such as the commit 1234e567.
    if (!Number.isFinite(number)) return text;
    return sign === '-' ? -number : number;
  },
};

/** Times, numbers to the base of 60, and the library's own decimals. Infinity and NaN stay. */
function isLeftOut(tag: Tags[number]): boolean {
  if (typeof tag === 'string') return false;
  if (tag.tag === 'tag:yaml.org,2002:timestamp' || ('format' in tag && tag.format === 'TIME')) return true;
  return tag.tag === NUMBER.tag && 'test' in tag && !tag.test.test('.inf');
}

export const KUBECTL_YAML = {
  logLevel: 'silent',
  version: '1.1',
  customTags: (tags: Tags): Tags => [...tags.filter((tag) => !isLeftOut(tag)), NUMBER],
} as const;
