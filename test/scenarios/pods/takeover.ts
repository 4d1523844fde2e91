/** Measures how soon copies are made again after the leading Pod has ended. */
import assert from 'node:assert/strict';

import type { RealCluster } from '../../servers/real-cluster/cluster.ts';
import { waitFor } from '../../support/wait-for.ts';
import { holderOf, ROLLOUT_TIMEOUT_MS, replicated } from './support.ts';

const SECRETS = 60;
/** The number of Secrets that are created before the leader ends. */
const BEFORE = 20;

export interface Takeover {
  /** Time from the end of the old leader until the Lease has another holder, ms. */
  readonly heldAfterMs: number;
  /** Time from the end of the old leader until the first copy by the new leader, ms. */
  readonly copiedAfterMs: number;
}

/**
 * Creates Secrets that the replicator copies, and ends the leader meanwhile.
 * @param end ends the leader
 * @throws AssertionError if a copy is missing, or was written more than once
 */
export async function takeover(cluster: RealCluster, name: string, end: () => Promise<unknown>): Promise<Takeover> {
  const { api } = cluster;
  const [from, to] = [`${name}-from`, `${name}-to`];
  await api.createNamespaces([from, to]);
  const writes = new Map<string, number[]>();
  const watch = await api.watch(`/api/v1/namespaces/${to}/secrets`, ({ type, object, at }) => {
    const key = type === 'GAP' ? type : object.metadata.name;
    writes.set(key, [...(writes.get(key) ?? []), at]);
  });
  try {
    const before = await holderOf(cluster);
    let endedAt = Infinity;
    const ending: Promise<unknown>[] = [];
    for (let index = 0; index < SECRETS; index += 1) {
      if (index === BEFORE) {
        endedAt = performance.now();
        ending.push(end());
      }
      await api.create(replicated(`secret-${index}`, from, to, `value ${index}`));
    }
    await Promise.all(ending);
    const heldAt = await waitFor(
      async () => {
        const holder = await holderOf(cluster);
        return holder !== '' && holder !== before && performance.now();
      },
      { timeoutMs: ROLLOUT_TIMEOUT_MS, message: 'another leader', intervalMs: 50 },
    );
    await waitFor(() => writes.size >= SECRETS, { message: () => `all copies; there are ${writes.size}` });
    assert.ok(!writes.has('GAP'), 'the watch of the test missed events');
    const copies = await api.list(`/api/v1/namespaces/${to}/secrets`);
    assert.equal(copies.length, SECRETS);
    for (const { metadata, data } of copies) {
      const value = Buffer.from(data.password, 'base64').toString();
      assert.equal(value, `value ${metadata.name.replace('secret-', '')}`);
    }
    const more = [...writes].filter(([, times]) => times.length > 1).map(([secret]) => secret);
    assert.deepEqual(more, [], 'a copy was written more than once');
    const [first = Infinity] = [...writes.values()]
      .flat()
      .filter((at) => at > heldAt - 50)
      .toSorted((a, b) => a - b);
    return { heldAfterMs: heldAt - endedAt, copiedAfterMs: first - endedAt };
  } finally {
    await watch.stop();
  }
}
