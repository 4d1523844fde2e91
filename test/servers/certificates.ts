/**
 * A certificate authority (CA) for one test run, which issues certificates. Keys are P-256, because such a key is made
 * in milliseconds.
 */
import type { generate as Generate } from 'selfsigned';

export interface Certificate {
  readonly certPem: string;
  readonly keyPem: string;
}

export interface Subject {
  readonly commonName: string;
  /** For a client certificate: the groups of the user in Kubernetes. */
  readonly organizations?: readonly string[];
}

/** Loaded with the first certificate: the package takes half of the time that a test file needs to start. */
const generate: typeof Generate = async (...args) => (await import('selfsigned')).generate(...args);

const LOOPBACK = [
  { type: 2, value: 'localhost' },
  { type: 7, ip: '127.0.0.1' },
] as const;

const DAY_MS = 24 * 60 * 60 * 1000;

export class CertificateAuthority {
  /** The certificate and key of the CA itself. */
  readonly certificate: Certificate;

  /** Uses an existing CA. `create` makes a new one. */
  constructor(certificate: Certificate) {
    this.certificate = certificate;
  }

  get certPem(): string {
    return this.certificate.certPem;
  }

  /** @param issuer signs the certificate of the new CA, which is an intermediate one then. Default: it signs itself. */
  static async create(commonName: string, issuer?: CertificateAuthority): Promise<CertificateAuthority> {
    const { private: keyPem, cert: certPem } = await generate([{ name: 'commonName', value: commonName }], {
      ...common(),
      ...(issuer && { ca: { key: issuer.certificate.keyPem, cert: issuer.certPem } }),
      extensions: [
        { name: 'basicConstraints', cA: true, critical: true },
        { name: 'keyUsage', keyCertSign: true, cRLSign: true, digitalSignature: true, critical: true },
      ],
    });
    return new CertificateAuthority({ certPem, keyPem });
  }

  /** Issues a certificate for a server on 127.0.0.1, localhost and these addresses. */
  async server(commonName: string, addresses: readonly string[] = []): Promise<Certificate> {
    const more = addresses.map((ip) => ({ type: 7, ip }) as const);
    return this.#issue({ commonName }, [
      { name: 'extKeyUsage', serverAuth: true },
      { name: 'subjectAltName', altNames: [...LOOPBACK, ...more] },
    ]);
  }

  async client(subject: Subject): Promise<Certificate> {
    return this.#issue(subject, [{ name: 'extKeyUsage', clientAuth: true }]);
  }

  async #issue(subject: Subject, extensions: NonNullable<Options['extensions']>): Promise<Certificate> {
    const names = [
      ...(subject.organizations ?? []).map((value) => ({ name: 'organizationName', value })),
      { name: 'commonName', value: subject.commonName },
    ];
    const { private: keyPem, cert: certPem } = await generate(names, {
      ...common(),
      ca: { key: this.certificate.keyPem, cert: this.certPem },
      extensions: [
        { name: 'basicConstraints', cA: false, critical: true },
        { name: 'keyUsage', digitalSignature: true, critical: true },
        ...extensions,
      ],
    });
    return { certPem, keyPem };
  }
}

type Options = NonNullable<Parameters<typeof generate>[1]>;

/** Settings for all certificates. They are valid for a month, from yesterday on: the clocks of machines may differ. */
function common(): Pick<Options, 'keyType' | 'curve' | 'algorithm' | 'notBeforeDate' | 'notAfterDate'> {
  const now = Date.now();
  return {
    keyType: 'ec',
    curve: 'P-256',
    algorithm: 'sha256',
    notBeforeDate: new Date(now - DAY_MS),
    notAfterDate: new Date(now + 30 * DAY_MS),
  };
}
