/** Reads YAML as kubectl: version 1.1, so that merge keys work and `yes` is true, with numbers of go-yaml. Pure. */
import type { ScalarTag, Tags } from 'yaml';

/** A decimal number. The YAML library takes `e1` for a number too, and go-yaml does not. */
const DECIMAL = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/;
const OTHER_BASE = /^([-+]?)(0[xbo][\da-f]+)$/i;

/** Numbers that the library's tag for integers does not match. */
const NUMBER: ScalarTag = {
  default: true,
  tag: 'tag:yaml.org,2002:float',
  test: /^[-+]?\.?\d/,
  resolve: (text) => {
    const plain = text.replaceAll('_', '');
    const [, sign, digits] = OTHER_BASE.exec(plain) ?? [];
    const number = digits === undefined ? (DECIMAL.test(plain) ? Number(plain) : Number.NaN) : Number(digits);
    // A number that is too large is a text. An example is the commit 1234e567.
    if (!Number.isFinite(number)) return text;
    return sign === '-' ? -number : number;
  },
};

/** Leaves out the library's times, its numbers to the base of 60, and its decimals. Infinity and NaN stay. */
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
