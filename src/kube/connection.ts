/** Server and credentials of a cluster. `auth/kubeconfig.ts` and `auth/followed-kubeconfig.ts` make them, `http.ts` uses them. */

/** CA and client certificate. A new object means new material, and opens new connections. */
export interface TlsMaterial {
  /** PEM bundle that the server's certificate is checked against; Node's own roots without it. */
  readonly ca?: string | Buffer | undefined;
  /** PEM client certificate and its key: both or none. */
  readonly cert?: string | Buffer | undefined;
  readonly key?: string | Buffer | undefined;
  /** Name that the server's certificate must carry, and SNI, where it is not the server URL's host. */
  readonly servername?: string | undefined;
  readonly rejectUnauthorized: boolean;
}

/** Headers that authenticate. A new object means new credentials. */
export type AuthHeaders = Readonly<Record<string, string | readonly string[]>>;

/**
 * Credentials. Both methods return a value while it is known to be fresh, and a promise only while a file is read or a plugin
 * runs, so that the usual call costs nothing.
 */
export interface CredentialSource {
  /** @throws CredentialError naming the file or plugin */
  headers(): AuthHeaders | Promise<AuthHeaders>;
  /** As `headers`. */
  tls(): TlsMaterial | Promise<TlsMaterial>;
  /** The server answered 401: the credentials are read again, at most as often as the source allows. */
  invalidate(): void;
}

/** The source of a connection that may be replaced while it is used. */
export interface ConnectionSource {
  /** Between two checks, ms. */
  readonly intervalMs: number;
  /** Reads the source again. @returns the present connection: the same object if nothing has changed, or if it cannot be read */
  check(): Promise<Connection>;
}

export interface Connection {
  /** The cluster's name in logs, metrics and status. */
  readonly cluster: string;
  /** Scheme, host, port and perhaps a path in front of every request's path. Never with a user or password. */
  readonly server: URL;
  readonly credentials: CredentialSource;
  /** HTTP proxy to tunnel through (CONNECT); may carry a user and password, so it is never logged. */
  readonly proxy?: URL | undefined;
  /** Namespace of the context or of our own Pod; `default` where neither names one. */
  readonly namespace: string;
  /** Where this was read from, for messages: `/home/x/.kube/config, context "prod"` or `in-cluster`. */
  readonly origin: string;
  /** Checked regularly, and at once after a 401. `undefined`: the connection is never replaced. */
  readonly source?: ConnectionSource | undefined;
}
