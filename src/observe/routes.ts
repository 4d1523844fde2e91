/** Makes the routes of the status server, for metrics and probes. Defines their replies and checks. */
import { setTimeout } from 'node:timers/promises';
import type { Metrics } from './metrics/metrics.ts';

export interface Reply {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

export interface CheckResult {
  readonly ok: boolean;
  /** Details, such as names and ages. Never a secret value. */
  readonly message?: string;
}

export interface Check extends CheckResult {
  /** Short and stable: `watch-synced/local/Secret/copies`. */
  readonly name: string;
  /** `true`: the check is shown, but the probe succeeds even if this check fails. Default `false`. */
  readonly isInformational?: boolean;
}

/** Runs the checks of a probe, at each request of the probe. If it returns no check, the probe succeeds. */
export type Checks = () => readonly Check[];

/** Answers a GET; for a HEAD the server omits the body. If the handler throws, the server answers 500 and logs. */
type RouteHandler = (query: URLSearchParams) => Reply | Promise<Reply>;

/** For each exact path, for example `/metrics`, its handler. */
export type Routes = Readonly<Record<string, RouteHandler>>;

export function textReply(status: number, body: string): Reply {
  return { status, contentType: 'text/plain; charset=utf-8', body };
}

export function jsonReply(status: number, value: unknown): Reply {
  return { status, contentType: 'application/json', body: `${JSON.stringify(value)}\n` };
}

/** The route `/metrics`. */
export function metricsRoutes(metrics: Metrics): Routes {
  return {
    '/metrics': async () => ({ status: 200, contentType: metrics.registry.contentType, body: await metrics.text() }),
  };
}

/**
 * The routes of the probes:
 * - `/healthz` shows that the event loop is not blocked, and runs the checks `liveness` of the work queues. It fails
 *   only if a restart can help: it succeeds even if no API server answers. For a startup probe, `?wait=10s` delays the
 *   answer until the checks `readiness` succeed, but at most for the given time, and never more than 10 s. So during a
 *   long start the kubelet does not restart the process and records no Warning events.
 * - `/readyz` answers 200 if all checks `readiness` succeed, except informational checks; otherwise 503.
 * `/livez` is the same as `/healthz`, as in an API server. `/health/live` and `/health/ready` are the same, too, for
 * programs of ASP.NET, whose probes have these paths.
 * In all, `?verbose` lists every check, as in the API server; `[i]` marks an informational check.
 */
export function probeRoutes(liveness: Checks, readiness: Checks): Routes {
  const live: RouteHandler = async (query) => {
    const end = performance.now() + waitOf(query);
    while (!isOk(readiness) && performance.now() < end) await setTimeout(WAIT_STEP_MS);
    return probe('healthz', liveness, query);
  };
  const ready: RouteHandler = (query) => probe('readyz', readiness, query);
  return { '/healthz': live, '/livez': live, '/readyz': ready, '/health/live': live, '/health/ready': ready };
}

const MAX_WAIT_MS = 10_000;
const WAIT_STEP_MS = 100;

/** The wait that the query requests, ms. */
function waitOf(query: URLSearchParams): number {
  const seconds = /^(\d{1,4})s$/.exec(query.get('wait') ?? '')?.[1] ?? '0';
  return Math.min(Number(seconds) * 1000, MAX_WAIT_MS);
}

/** Whether a probe with these checks succeeds. */
export function isOk(checks: Checks): boolean {
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
