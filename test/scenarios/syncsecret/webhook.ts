/** Runs a webhook of the management cluster. It refuses writes with a message that quotes them, or accepts them later. */
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';

import { CertificateAuthority } from '../../servers/certificates.ts';
import type { Json, TestApi } from '../../support/api.ts';
import { waitFor } from '../../support/wait-for.ts';

const CONFIGURATIONS = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations';

export interface Denial {
  /** HTTP code of the refusal, which the API server passes on to the client. */
  readonly code: number;
  readonly reason: string;
}

export interface Webhook extends AsyncDisposable {
  /** From now on, refuses writes in this way. */
  deny(denial: Denial): void;
  /** From now on, accepts writes after this time, ms. */
  acceptAfter(ms: number): void;
  /** The number of writes refused so far. */
  readonly refused: number;
  /** The number of writes that wait for an answer now. */
  readonly waiting: number;
}

/**
 * Starts a webhook for new and changed objects of one kind in a namespace. At first the webhook refuses them. Resolves
 * when the API server uses the webhook.
 */
export async function startWebhook(
  api: TestApi,
  name: string,
  { group, resource, namespace }: { readonly group: string; readonly resource: string; readonly namespace: string },
): Promise<Webhook> {
  const authority = await CertificateAuthority.create('webhook');
  const { certPem: cert, keyPem: key } = await authority.server('localhost');
  let denial: Denial = { code: 403, reason: 'Forbidden' };
  let refused = 0;
  let acceptAfterMs: number | undefined;
  const waiting = new Set<NodeJS.Timeout>();
  const server = createServer({ cert, key }, (request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      const review: Json = JSON.parse(Buffer.concat(parts).toString('utf8'));
      const { uid, object, oldObject } = review.request;
      response.setHeader('content-type', 'application/json');
      if (acceptAfterMs !== undefined) {
        const timer = setTimeout(() => {
          waiting.delete(timer);
          response.end(JSON.stringify({ ...review, request: undefined, response: { uid, allowed: true } }));
        }, acceptAfterMs);
        waiting.add(timer);
        return;
      }
      refused += 1;
      const { code, reason } = denial;
      const words = { new: object?.data, text: object?.stringData, old: oldObject?.data };
      const status = {
        code,
        reason,
        message: `not this: ${JSON.stringify(words)}`,
        details: { retryAfterSeconds: 30 },
      };
      response.end(JSON.stringify({ ...review, request: undefined, response: { uid, allowed: false, status } }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await api.create({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name },
    webhooks: [
      {
        name: `${name}.example.com`,
        clientConfig: {
          url: `https://localhost:${port}/`,
          caBundle: Buffer.from(authority.certPem).toString('base64'),
        },
        rules: [{ apiGroups: [group], apiVersions: ['*'], resources: [resource], operations: ['CREATE', 'UPDATE'] }],
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
        sideEffects: 'None',
        admissionReviewVersions: ['v1'],
      },
    ],
  });
  const base = group === '' ? '/api/v1' : `/apis/${group}/v1alpha1`;
  const kind =
    group === '' ? { apiVersion: 'v1', kind: 'Secret' } : { apiVersion: `${group}/v1alpha1`, kind: 'SyncSecret' };
  const isInForce = async (): Promise<boolean> => {
    const { status } = await api.raw('POST', `${base}/namespaces/${namespace}/${resource}`, {
      query: { dryRun: 'All' },
      body: { ...kind, metadata: { name: 'probe' } },
    });
    return status >= 400;
  };
  await waitFor(isInForce, { message: `the webhook ${name} to be in force` });
  refused = 0;
  return {
    deny: (next) => (denial = next),
    acceptAfter: (ms) => (acceptAfterMs = ms),
    get refused() {
      return refused;
    },
    get waiting() {
      return waiting.size;
    },
    async [Symbol.asyncDispose]() {
      await api.delete(`${CONFIGURATIONS}/${name}`);
      await waitFor(async () => !(await isInForce()), { message: `the webhook ${name} to be gone` });
      for (const timer of waiting) clearTimeout(timer);
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}
