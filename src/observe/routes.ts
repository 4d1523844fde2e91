/** The routes of the status server: metrics and probes, with the replies and checks that they are made of. */
import { setTimeout } from 'node:timers/promises';
import type { Metrics } from './metrics/metrics.ts';

export interface Reply {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

export interface CheckResult {
  readonly ok: boolean;
  /** Names and ages, never values. */
  readonly message?: string;
}

export interface Check extends CheckResult {
  /** Short and stable: `watch-synced/local/Secret/copies`. */
  readonly name: string;
  /** The check is shown, but the probe succeeds without it. */
  readonly isInformational?: boolean;
}

/** Runs the checks of one probe, at each request. Without any check the probe succeeds. */
export type Checks = () => readonly Check[];

/** Answers a GET; for a HEAD the server omits the body. If it throws, the answer is a 500, and the error is logged. */
export type RouteHandler = (query: URLSearchParams) => Reply | Promise<Reply>;

/** Handlers by exact path. */
export type Routes = Readonly<Record<string, RouteHandler>>;

export function textReply(status: number, body: string): Reply {
  return { status, contentType: 'text/plain; charset=utf-8', body };
}

export function jsonReply(status: number, value: unknown): Reply {
  return { status, contentType: 'application/json', body: `${JSON.stringify(value)}\n` };
}

/** `/metrics` */
export function metricsRoutes(metrics: Metrics): Routes {
  return {
    '/metrics': async () => ({ status: 200, contentType: metrics.registry.contentType, body: await metrics.text() }),
  };
}

/**
 * `/healthz`: an answer shows that the event loop is not blocked; `liveness` are the checks of the work queues. It
 * fails only where a restart can help, so not because an API server does not answer. `?wait=10s` is for a startup
 * probe: it delays the answer until the checks of `readiness` succeed, at most for this time and 10 s. So the kubelet
 * does not restart a process that waits for its servers, and records no Warning events during a long start. `/readyz`:
 * 200 only when all checks of `readiness` succeed, except informational ones. `?verbose` lists every check, as in the
 * API server; `[i]` marks informational ones.
 */
export function probeRoutes(liveness: Checks, readiness: Checks): Routes {
  return {
    '/healthz': async (query) => {
      const end = performance.now() + waitOf(query);
      while (!isOk(readiness) && performance.now() < end) await setTimeout(WAIT_STEP_MS);
      return probe('healthz', liveness, query);
    },
    '/readyz': (query) => probe('readyz', readiness, query),
  };
}

const MAX_WAIT_MS = 10_000;
const WAIT_STEP_MS = 100;

/** The wait that the query requests, ms. */
function waitOf(query: URLSearchParams): number {
  const seconds = /^(\d{1,4})s$/.exec(query.get('wait') ?? '')?.[1] ?? '0';
  return Math.min(Number(seconds) * 1000, MAX_WAIT_MS);
}

function isOk(checks: Checks): boolean {
  return checks().every((result) => result.ok || result.isInformational);
}

function probe(name: string, checks: Checks, query: URLSearchParams): Reply {
  const results = checks();
  const failed = results.filter((result) => !result.ok && result.isInformational !== true);
  const ok = failed.length === 0;
  const shown = query.has('verbose') ? results : failed;
  const lines = shown.map((result) => {
    const message = result.message === undefined ? '' : `: ${result.message}`;
    const mark = result.isInformational === true ? 'i' : result.ok ? '+' : '-';
    return `[${mark}]${result.name} ${result.ok ? 'ok' : 'failed'}${message}`;
  });
  if (!ok) lines.push(`${name} check failed`);
  else if (shown.length > 0) lines.push(`${name} check passed`);
  else lines.push('ok');
  return textReply(ok ? 200 : 503, `${lines.join('\n')}\n`);
}
