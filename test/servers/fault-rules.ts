/** Faults, and the requests that they apply to. */

/** The parts of a request that a rule can match; never its body or its credentials. */
export interface ProxyRequest {
  readonly method: string;
  /** As sent, with the query: `/api/v1/secrets?watch=true`. */
  readonly url: string;
  /** Without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** `?watch=true` or `?watch=1`. */
  readonly isWatch: boolean;
}

/** All given fields must match. A string in `path` is a part of it; a RegExp is searched for in path and query. */
export interface RequestMatch {
  readonly method?: string | readonly string[];
  readonly path?: string | RegExp;
  readonly isWatch?: boolean;
}

export type Matcher = RequestMatch | ((request: ProxyRequest) => boolean);

export type Fault =
  /** The connection breaks before the server receives the request. */
  | { readonly kind: 'cut' }
  /** The server carries the request out, and the connection breaks before its answer. The client cannot know which of both happened. */
  | { readonly kind: 'lose-answer' }
  /** The connection stays open and silent; the server does not receive the request. */
  | { readonly kind: 'stall' }
  /** The request is held for this time, then forwarded. */
  | { readonly kind: 'delay'; readonly ms: number }
  /** The request is held until the test releases it. */
  | { readonly kind: 'hold'; readonly until: Promise<void> }
  /** The proxy answers, at once or when the test releases the answer; a body that is an object is sent as JSON. */
  | {
      readonly kind: 'respond';
      readonly status: number;
      readonly headers?: Readonly<Record<string, string>>;
      readonly body?: unknown;
      readonly until?: Promise<void>;
    }
  /** This many complete lines of the answer (default 0), half of the next, and the connection breaks. */
  | { readonly kind: 'truncate'; readonly lines?: number };

export interface FaultRule {
  /** Default: every request. */
  readonly match?: Matcher;
  readonly fault: Fault;
  /** Ends after this many requests. Default: until cleared. */
  readonly times?: number;
}

/** An active rule. */
export interface ActiveRule {
  /** How many requests it was applied to. */
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

/** The active rules: the first that matches applies. */
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

  /** The fault for this request, which the rule then counts. */
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

/** A `respond` fault with the answer of Kubernetes for these codes. */
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
