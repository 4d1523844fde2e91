/**
 * The process in which the bare client runs (bare-client.ts). It sends calls over 16 connections that stay open, and
 * reports how long they took.
 */
import https from 'node:https';

import type { BareCall, BareJob, BareResult } from './bare-client.ts';

const SOCKETS = 16;

function send(agent: https.Agent, job: BareJob, { method, path, body }: BareCall): Promise<void> {
  return new Promise((resolve, reject) => {
    const contentType = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const outgoing = https.request(
      new URL(path, job.url),
      {
        method,
        agent,
        headers: {
          authorization: `Bearer ${job.token}`,
          accept: 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
          ...(body === undefined ? {} : { 'content-type': contentType, 'content-length': Buffer.byteLength(body) }),
        },
      },
      (response) => {
        response.on('error', reject);
        response.on('end', () => {
          const { statusCode = 0 } = response;
          if (statusCode < 300) resolve();
          else reject(new Error(`bare client: ${method} ${path}: ${statusCode}`));
        });
        response.resume();
      },
    );
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}

async function run(agent: https.Agent, job: BareJob): Promise<number> {
  const started = performance.now();
  const waiting = job.calls.values();
  const worker = async (): Promise<void> => {
    for (const call of waiting) await send(agent, job, call);
  };
  await Promise.all(Array.from({ length: SOCKETS }, worker));
  return performance.now() - started;
}

async function answer(agent: https.Agent, job: BareJob): Promise<BareResult> {
  const before = process.cpuUsage();
  try {
    const ms = await run(agent, job);
    const { user, system } = process.cpuUsage(before);
    return { ms, cpuSeconds: (user + system) / 1_000_000 };
  } catch (error) {
    return { error: String(error) };
  }
}

let agent: https.Agent | undefined;
process.on('message', (job: BareJob) => {
  agent ??= new https.Agent({ keepAlive: true, maxSockets: SOCKETS, ca: job.caPem });
  void answer(agent, job).then((result) => process.send?.(result));
});
