/** Reads YAML 1.1 as kubectl does: merge keys work, `yes` is true, and numbers are those of go-yaml. Pure. */
import type { ScalarTag, Tags } from 'yaml';

/** A decimal number in go-yaml. The library would also read `e1` as a number. */
const DECIMAL = /^[-+]?(?:\.\d+|\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?$/;
const OTHER_BASE = /^([-+]?)(0[xbo][\da-f]+)$/i;

/** Reads the numbers that the library's own integer tag does not match. */
const NUMBER: ScalarTag = {
  default: true,
  tag: 'tag:yaml.org,2002:float',
  test: /^[-+]?\.?\d/,
  resolve: (text) => {
    const plain = text.replaceAll('_', '');
    const [, sign, digits] = OTHER_BASE.exec(plain) ?? [];
    const number = digits === undefined ? (DECIMAL.test(plain) ? Number(plain) : Number.NaN) : Number(digits);
    // A number too large for JavaScript stays a text, for example the commit 1234e567.
    if (!Number.isFinite(number)) return text;
    return sign === '-' ? -number : number;
  },
};

/** Whether a tag of the library is not used: times, numbers to the base of 60, decimals except Infinity and NaN. */
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
