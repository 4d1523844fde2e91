/** Faults for the fault proxy, and rules that say which requests get them. */

/** The parts of a request that a rule can match. They never have its body or its credentials. */
export interface ProxyRequest {
  readonly method: string;
  /** The path with its query, as it was sent: `/api/v1/secrets?watch=true`. */
  readonly url: string;
  /** The path without its query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** Whether the query has `watch=true` or `watch=1`. */
  readonly isWatch: boolean;
}

/**
 * All fields that are given must match. A string in `path` must be a part of it; a RegExp is searched for in path and
 * query.
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
   * The server carries out the request, and the connection breaks before its answer. The client cannot tell this from
   * `cut`.
   */
  | { readonly kind: 'lose-answer' }
  /** The connection stays open and silent, and the server does not get the request. */
  | { readonly kind: 'stall' }
  /** The request is held for this time, and then passed on. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** The request is held until the test releases it. */
  | { readonly kind: 'hold'; readonly until: Promise<void> }
  /** The proxy answers, at once or when the test releases the answer. A body that is an object is sent as JSON. */
  | {
      readonly kind: 'respond';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: unknown;
      readonly until?: Promise<void>;
    }
  /**
   * The client gets this many complete lines of the answer (default 0) and half of the next. Then the connection
   * breaks.
   */
  | { readonly kind: 'truncate'; readonly lines?: number };

export interface FaultRule {
  /** The requests that get the fault. Default: all. */
  readonly match?: Matcher;
  readonly fault: Fault;
  /** The number of requests after which the rule ends. Default: it ends when it is cleared. */
  readonly times?: number;
}

/** A rule that is in force. */
export interface ActiveRule {
  /** The number of requests that got the fault. */
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

/** The rules in force. The first one that matches a request counts. */
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

  /** The fault for a request, if a rule matches. The rule counts the request. */
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

/** A fault `respond` with the answer that Kubernetes gives for this status code. */
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
