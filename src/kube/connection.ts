/** Server and credentials of a cluster. `kubeconfig.ts` and `followed-kubeconfig.ts` read them, `http.ts` uses them. */
import type { TlsMaterial } from '../http/agent.ts';

/** The headers that authenticate a request. */
export type AuthHeaders = Readonly<Record<string, string | readonly string[]>>;

/** Credentials that may change while they are used. Until a change, `headers` and `tls` return the same objects. */
export interface CredentialSource {
  /** @throws CredentialError naming the file or plugin */
  headers(): Promise<AuthHeaders>;
  /** @throws as `headers` */
  tls(): Promise<TlsMaterial>;
  /** Called after a 401: reads the files or runs the plugin again. Between two runs of a plugin there is a pause. */
  invalidate(): void;
}

/** The file that a connection was read from, if the client checks it for changes. */
interface ConnectionSource {
  /** Reads the file again. @returns the same object as before if nothing has changed or the file cannot be used */
  check(): Promise<Connection>;
}

export interface Connection {
  /** The cluster's name in logs, metrics and status. */
  readonly cluster: string;
  /** Scheme, host, port, and perhaps a path, which comes before the path of each request. Without user and password. */
  readonly server: URL;
  readonly credentials: CredentialSource;
  /** HTTP proxy, which opens a tunnel to the server (CONNECT). Never logged, because it may hold a password. */
  readonly proxy?: URL | undefined;
  /** The namespace of the kubeconfig's context, or of this Pod; `default` if neither names one. */
  readonly namespace: string;
  /** The place where the connection is defined, for messages: `/home/x/.kube/config, context "prod"`, `in-cluster`. */
  readonly origin: string;
  /** Checked every 2 s, and at once after a 401. `undefined`: the connection never changes. */
  readonly source?: ConnectionSource | undefined;
}
