/** The faults of the fault proxy, and the rules that say which requests get which fault. */

/** The parts of a request that a rule can look at. They contain no body and no credentials. */
export interface ProxyRequest {
  readonly method: string;
  /** Path and query, as they were sent: `/api/v1/secrets?watch=true`. */
  readonly url: string;
  /** The path without its query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Whether the query has `watch=true` or `watch=1`. */
  readonly isWatch: boolean;
}

/**
 * A request matches if all given fields match. If `path` is a string, the path must contain it; if it is a RegExp, path
 * and query must match.
 */
export interface RequestMatch {
  readonly method?: string | readonly string[];
  readonly path?: string | RegExp;
  readonly isWatch?: boolean;
}

export type Matcher = RequestMatch | ((request: ProxyRequest) => boolean);

export type Fault =
  /** The connection breaks before the server gets the request. */
  | { readonly kind: 'cut' }
  /**
   * The server carries out the request, but the connection breaks before the answer. For the client, this looks like
   * `cut`.
   */
  | { readonly kind: 'lose-answer' }
  /** The connection stays open, but nothing passes, and the server does not get the request. */
  | { readonly kind: 'stall' }
  /** The server gets the request after this time, ms. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** The server gets the request when the test resolves `until`. */
  | { readonly kind: 'hold'; readonly until: Promise<void> }
  /** The proxy answers itself: at once, or when the test resolves `until`. An object as body is sent as JSON. */
  | {
      readonly kind: 'respond';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: unknown;
      readonly until?: Promise<void>;
    }
  /**
   * The client gets this many complete lines of the answer (default 0), and half of the next one. Then the connection
   * breaks.
   */
  | { readonly kind: 'truncate'; readonly lines?: number };

export interface FaultRule {
  /** The requests that get the fault. Default: all requests. */
  readonly match?: Matcher;
  readonly fault: Fault;
  /** The rule ends after this many requests. Default: it ends when the test calls `clear`. */
  readonly times?: number;
}

/** A rule that the proxy applies now. */
export interface ActiveRule {
  /** How many requests got the fault. */
  readonly hits: number;
  clear(): void;
}

export function describeRequest(method: string, url: string): ProxyRequest {
  const { pathname, searchParams } = new URL(url, 'http://proxy');
  const watch = searchParams.get('watch');
  return { method, url, path: pathname, query: searchParams, isWatch: watch === 'true' || watch === '1' };
}

export function matches(matcher: Matcher | undefined, request: ProxyRequest): boolean {
  if (matcher === undefined) return true;
  if (typeof matcher === 'function') return matcher(request);
  const { method, path, isWatch } = matcher;
  if (
    method !== undefined &&
    !(typeof method === 'string' ? method === request.method : method.includes(request.method))
  ) {
    return false;
  }
  if (typeof path === 'string' && !request.path.includes(path)) return false;
  if (path instanceof RegExp && !path.test(request.url)) return false;
  return isWatch === undefined || isWatch === request.isWatch;
}

/** The rules that a proxy applies. If several match a request, the oldest is applied. */
export class RuleSet {
  readonly #rules = new Set<{ readonly rule: FaultRule; hits: number }>();

  add(rule: FaultRule): ActiveRule {
    const entry = { rule, hits: 0 };
    this.#rules.add(entry);
    return {
      get hits() {
        return entry.hits;
      },
      clear: () => {
        this.#rules.delete(entry);
      },
    };
  }

  clear(): void {
    this.#rules.clear();
  }

  /** The fault for a request; `undefined` if no rule matches. Counts the request for the rule. */
  take(request: ProxyRequest): Fault | undefined {
    for (const entry of this.#rules) {
      if (!matches(entry.rule.match, request)) continue;
      entry.hits += 1;
      if (entry.hits >= (entry.rule.times ?? Infinity)) this.#rules.delete(entry);
      return entry.rule.fault;
    }
    return undefined;
  }
}

/** A fault `respond` that answers with this status code as Kubernetes does. */
export function kubernetesFault(
  status: 409 | 410 | 429 | 500 | 503 | 504,
  retryAfterSeconds?: number,
): Extract<Fault, { kind: 'respond' }> {
  const reasons = {
    409: 'Conflict',
    410: 'Expired',
    429: 'TooManyRequests',
    500: 'InternalError',
    503: 'ServiceUnavailable',
    504: 'Timeout',
  } as const;
  return {
    kind: 'respond',
    status,
    ...(retryAfterSeconds === undefined ? {} : { headers: { 'retry-after': String(retryAfterSeconds) } }),
    body: {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: `fault: ${reasons[status]}`,
      reason: reasons[status],
      code: status,
      ...(retryAfterSeconds === undefined ? {} : { details: { retryAfterSeconds } }),
    },
  };
}
