/** Tunnels through an HTTP proxy by CONNECT. Invariant: the callback is called exactly once. */
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';
import { HttpError } from './errors.ts';
import { hostAndPort } from './exchange.ts';

/** Longest wait for the proxy's answer, in ms; a call's own limit is usually shorter. */
const TUNNEL_TIMEOUT_MS = 30_000;

export type TunnelCallback = (error: Error | null, socket?: Socket) => void;

/**
 * Opens a connection to `host:port` through the proxy.
 * @param signal ends a request that the proxy has not answered
 * @param done gets a socket that is connected to the target, or `HttpError` EPROXY; the proxy's password is in neither
 */
export function openTunnel(proxy: URL, host: string, port: number, signal: AbortSignal, done: TunnelCallback): void {
  const target = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  const { secure, ...address } = hostAndPort(proxy);
  const request = (secure ? httpsRequest : httpRequest)({
    ...address,
    method: 'CONNECT',
    path: target,
    headers: { Host: target, ...proxyAuthorization(proxy) },
    agent: false,
    timeout: TUNNEL_TIMEOUT_MS,
    signal,
  });
  let finished = false;
  const finish: TunnelCallback = (error, socket) => {
    if (finished) return;
    finished = true;
    done(error, socket);
  };
  const fail = (why: string, cause?: unknown): void => {
    finish(new HttpError('EPROXY', `proxy ${proxy.host}: no tunnel to ${target}: ${why}`, { cause }));
  };
  request.once('connect', (response, socket, head) => {
    socket.setTimeout(0);
    if (response.statusCode !== 200) {
      socket.destroy();
      fail(`it answered ${response.statusCode ?? 0} ${response.statusMessage ?? ''}`.trim());
      return;
    }
    if (head.length > 0) socket.unshift(head);
    finish(null, socket);
  });
  // A proxy without support for CONNECT answers as to any other request.
  request.once('response', (response) => {
    response.destroy();
    fail(`it answered ${response.statusCode ?? 0} ${response.statusMessage ?? ''}`.trim());
  });
  request.once('timeout', () => request.destroy(new Error(`no answer within ${TUNNEL_TIMEOUT_MS} ms`)));
  request.on('error', (error) => fail(error.message, error));
  request.end();
}

/** The header with user and password of the proxy URL; none without a user. */
export function proxyAuthorization({ username, password }: URL): { readonly 'Proxy-Authorization'?: string } {
  if (username === '') return {};
  const login = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return { 'Proxy-Authorization': `Basic ${Buffer.from(login).toString('base64')}` };
}
