/** Values of ASN.1 in DER (X.690), as certificates have them. */

const LONG_FORM = 0x80;

/** A value with its tag. @param tag for example 0x30, a SEQUENCE */
export function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag, ...lengthBytes(content.length)]), content]);
}

function lengthBytes(length: number): number[] {
  if (length < LONG_FORM) return [length];
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest >>>= 8) bytes.unshift(rest & 0xff);
  return [LONG_FORM | bytes.length, ...bytes];
}

export const sequence = (...parts: readonly Uint8Array[]): Buffer => der(0x30, ...parts);
export const set = (...parts: readonly Uint8Array[]): Buffer => der(0x31, ...parts);
export const octetString = (...parts: readonly Uint8Array[]): Buffer => der(0x04, ...parts);
export const utf8String = (text: string): Buffer => der(0x0c, Buffer.from(text));
/** @param bytes big-endian; the first bit is 0, because the number is positive */
export const integer = (bytes: Uint8Array): Buffer => der(0x02, bytes);
export const TRUE = der(0x01, Buffer.from([0xff]));

/** @param unused bits at the end of the last byte */
export const bitString = (bytes: Uint8Array, unused = 0): Buffer => der(0x03, Buffer.from([unused]), bytes);

/** @param dotted `1.2.840.10045.4.3.2` */
export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  return der(0x06, Buffer.from([40 * first + second, ...rest.flatMap(base128)]));
}

/** Seven bits in a byte; all but the last have the eighth bit. */
function base128(value: number): number[] {
  const bytes = [value & 0x7f];
  for (let rest = value >>> 7; rest > 0; rest >>>= 7) bytes.unshift(LONG_FORM | (rest & 0x7f));
  return bytes;
}

/** A time before 2050, to the second. */
export function utcTime(date: Date): Buffer {
  const digits = date.toISOString().replaceAll(/[-:T]|\..*/g, '');
  return der(0x17, Buffer.from(`${digits.slice(2)}Z`));
}
