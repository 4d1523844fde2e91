/**
 * A certificate authority for one test run, and its certificates (RFC 5280). Keys are P-256, which are generated in milliseconds.
 *
 * Almost every test file makes some: a library for X.509 would cost each of them more processor time than all its certificates.
 */
import { generateKeyPair, randomBytes, sign } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import { promisify } from 'node:util';

import {
  bitString,
  der,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  set,
  TRUE,
  utcTime,
  utf8String,
} from './der.ts';

export interface Certificate {
  readonly certPem: string;
  readonly keyPem: string;
}

export interface Subject {
  readonly commonName: string;
  /** For a Kubernetes client certificate: its groups. */
  readonly organizations?: readonly string[];
}

const COMMON_NAME = '2.5.4.3';
const ORGANIZATION = '2.5.4.10';
const KEY_USAGE = '2.5.29.15';
const SUBJECT_ALT_NAME = '2.5.29.17';
const BASIC_CONSTRAINTS = '2.5.29.19';
const EXTENDED_KEY_USAGE = '2.5.29.37';
const SERVER_AUTH = '1.3.6.1.5.5.7.3.1';
const CLIENT_AUTH = '1.3.6.1.5.5.7.3.2';
const ECDSA_WITH_SHA256 = sequence(objectIdentifier('1.2.840.10045.4.3.2'));

/** The bits digitalSignature, keyCertSign and cRLSign. */
const CA_USAGE = bitString(Buffer.from([0b1000_0110]), 1);
/** The bit digitalSignature. */
const END_USAGE = bitString(Buffer.from([0b1000_0000]), 7);
/** Version 3. */
const VERSION = der(0xa0, integer(Buffer.from([2])));
const SERIAL_BYTES = 9;

const DAY_MS = 24 * 60 * 60 * 1000;

const newKeys = promisify(generateKeyPair);

export class CertificateAuthority {
  readonly certPem: string;
  readonly #name: Buffer;
  readonly #key: KeyObject;

  private constructor(name: Buffer, key: KeyObject, certPem: string) {
    this.#name = name;
    this.#key = key;
    this.certPem = certPem;
  }

  static async create(commonName: string): Promise<CertificateAuthority> {
    const { publicKey, privateKey } = await newKeys('ec', { namedCurve: 'P-256' });
    const name = distinguishedName({ commonName });
    const extensions = [
      extension(BASIC_CONSTRAINTS, sequence(TRUE), { critical: true }),
      extension(KEY_USAGE, CA_USAGE, { critical: true }),
    ];
    const certPem = issue({ name, publicKey, extensions }, { name, key: privateKey });
    return new CertificateAuthority(name, privateKey, certPem);
  }

  /** For a server on 127.0.0.1 or localhost, and at these addresses of IPv4. */
  async server(commonName: string, addresses: readonly string[] = []): Promise<Certificate> {
    const names = [der(0x82, Buffer.from('localhost')), ...['127.0.0.1', ...addresses].map(ipName)];
    return this.#issue({ commonName }, [
      extension(EXTENDED_KEY_USAGE, sequence(objectIdentifier(SERVER_AUTH))),
      extension(SUBJECT_ALT_NAME, sequence(...names)),
    ]);
  }

  async client(subject: Subject): Promise<Certificate> {
    return this.#issue(subject, [extension(EXTENDED_KEY_USAGE, sequence(objectIdentifier(CLIENT_AUTH)))]);
  }

  async #issue(subject: Subject, more: readonly Buffer[]): Promise<Certificate> {
    const { publicKey, privateKey } = await newKeys('ec', { namedCurve: 'P-256' });
    const extensions = [
      extension(BASIC_CONSTRAINTS, sequence(), { critical: true }),
      extension(KEY_USAGE, END_USAGE, { critical: true }),
      ...more,
    ];
    const name = distinguishedName(subject);
    return {
      certPem: issue({ name, publicKey, extensions }, { name: this.#name, key: this.#key }),
      keyPem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    };
  }
}

interface Holder {
  readonly name: Buffer;
  readonly publicKey: KeyObject;
  readonly extensions: readonly Buffer[];
}

/** Valid from yesterday, because clocks can differ a little, for a month. @returns PEM */
function issue(holder: Holder, issuer: { readonly name: Buffer; readonly key: KeyObject }): string {
  const now = Date.now();
  const serial = randomBytes(SERIAL_BYTES);
  // Positive, and without a leading zero byte.
  serial[0] = (serial[0]! & 0x3f) | 0x40;
  const content = sequence(
    VERSION,
    integer(serial),
    ECDSA_WITH_SHA256,
    issuer.name,
    sequence(utcTime(new Date(now - DAY_MS)), utcTime(new Date(now + 30 * DAY_MS))),
    holder.name,
    holder.publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, sequence(...holder.extensions)),
  );
  const signature = sign('sha256', content, issuer.key);
  const base64 = sequence(content, ECDSA_WITH_SHA256, bitString(signature)).toString('base64');
  return `-----BEGIN CERTIFICATE-----\n${base64.replaceAll(/.{64}(?!$)/g, '$&\n')}\n-----END CERTIFICATE-----\n`;
}

function distinguishedName({ commonName, organizations = [] }: Subject): Buffer {
  const attribute = (type: string, value: string): Buffer => set(sequence(objectIdentifier(type), utf8String(value)));
  return sequence(
    ...organizations.map((organization) => attribute(ORGANIZATION, organization)),
    attribute(COMMON_NAME, commonName),
  );
}

function extension(type: string, value: Buffer, { critical = false } = {}): Buffer {
  return sequence(objectIdentifier(type), ...(critical ? [TRUE] : []), octetString(value));
}

function ipName(address: string): Buffer {
  return der(0x87, Buffer.from(address.split('.').map(Number)));
}
