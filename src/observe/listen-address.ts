/** An address to listen on, written as in Go programs: `:8080`, `127.0.0.1:0`, `[::]:9102`, `localhost:8080`. */
export interface ListenAddress {
  /** Empty: listens on every address of the machine, IPv6 and IPv4. */
  readonly host: string;
  /** 0: the system chooses a free port. */
  readonly port: number;
}

/**
 * Reads `host:port`; an IPv6 address stands in brackets.
 * @throws RangeError with the problem, without the name of a flag
 */
export function parseListenAddress(text: string): ListenAddress {
  const match = /^(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([^\s:[\]/]*)):(\d{1,5})$/.exec(text);
  const port = Number(match?.[3]);
  if (match === null) throw new RangeError('must be [host]:port, as :8080, 127.0.0.1:8080 or [::1]:8080');
  if (port > 65_535) throw new RangeError('the port must be 0 to 65535');
  return { host: match[1] ?? match[2] ?? '', port };
}

/** Writes the address as text, in the form that `parseListenAddress` reads. */
export function formatAddress({ host, port }: ListenAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}
