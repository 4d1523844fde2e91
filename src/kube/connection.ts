/** Server and credentials of a cluster. `auth/kubeconfig.ts` and `auth/followed-kubeconfig.ts` make a connection, `http.ts` uses it. */
import type { TlsMaterial } from '../http/agent.ts';

/** Headers that authenticate. */
export type AuthHeaders = Readonly<Record<string, string | readonly string[]>>;

/** Credentials that may change while they are used. `headers` and `tls` return the same object until then. */
export interface CredentialSource {
  /** @throws CredentialError naming the file or plugin */
  headers(): Promise<AuthHeaders>;
  /** @throws as `headers` */
  tls(): Promise<TlsMaterial>;
  /** The server answered 401: files and plugins are asked again, with a pause between two runs of a plugin. */
  invalidate(): void;
}

/** The file that a connection comes from, if the client follows changes of it. */
export interface ConnectionSource {
  /** Between two checks, ms. */
  readonly intervalMs: number;
  /** Reads the file again. @returns the present connection: the same object if nothing has changed, or if the file cannot be used */
  check(): Promise<Connection>;
}

export interface Connection {
  /** The cluster's name in logs, metrics and status. */
  readonly cluster: string;
  /** Scheme, host and port, and perhaps a path that begins the path of each request. Without user and password. */
  readonly server: URL;
  readonly credentials: CredentialSource;
  /** HTTP proxy, used by a tunnel (CONNECT). It is never logged, because it may hold a password. */
  readonly proxy?: URL | undefined;
  /** Of the context or of this Pod; `default` where neither names one. */
  readonly namespace: string;
  /** Where this was read from, for messages: `/home/x/.kube/config, context "prod"` or `in-cluster`. */
  readonly origin: string;
  /** Checked every `intervalMs`, and at once after a 401. `undefined`: the connection never changes. */
  readonly source?: ConnectionSource | undefined;
}
