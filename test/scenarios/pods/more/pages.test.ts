/**
 * Runs the commands of README and docs that need Pods (`sh norun=no-pods`). They run page by page with the real
 * kubectl, on a cluster with the chart installed. test/scenarios/docs/more/commands.test.ts runs all other commands.
 */
import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe } from 'node:test';

import { isInstalled } from '../../../servers/real-cluster/missing.ts';
import type { RealCluster } from '../../../servers/real-cluster/cluster.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { assertWithin, Yardstick } from '../../../support/yardstick.ts';
import { helm } from '../../chart/helm.ts';
import { mayEndWith, programFolder, replaced, shellBlocks } from '../../docs/blocks.ts';
import {
  containerOf,
  HOME,
  holderOf,
  install,
  leaderOf,
  podsOf,
  RELEASE,
  rolledOut,
  skip,
  startCluster,
  story,
} from '../support.ts';
import { Terminal } from './terminal.ts';

const ROOT = path.join(import.meta.dirname, '../../../..');
const REASON = 'no-pods';
const COMMAND_TIMEOUT_MS = 60_000;
/**
 * Time limit for a new leader, ms: the next container of the same Pod takes the Lease after one missing renewal (2.5
 * s), another Pod after 15 s.
 */
const RESTARTED_MS = 8_000;

const PAGES = globSync(['README.md', 'docs/*.md', 'docs/runbook/*.md'], { cwd: ROOT }).toSorted();
const BLOCKS = PAGES.flatMap((page) =>
  shellBlocks(page)
    .filter(({ reasons }) => reasons.includes(REASON))
    .map((block) => ({ page, block })),
);

/** The output that a command must have. Without this check, a command that prints nothing would pass. */
const PRINTED: readonly (readonly [RegExp, RegExp])[] = [
  [/ logs .*--previous/, /^\[pod\/keyferry-\S+\] \{.*"level":/m],
  [/ logs [^|]*$/, /^\[pod\/keyferry-\S+\] \{.*"level":/m],
  [/^until curl .*readyz/, /^\[\+\]/m],
  [/ describe /, /^Events:/m],
  [/ exec .* keyferry status/, /No problems found|^SYSTEM /m],
];

describe('docs with Pods', { skip: skip || (!isInstalled('curl') && 'curl is not installed') }, () => {
  const step = story();
  let cluster: RealCluster;
  let env: NodeJS.ProcessEnv;

  before(async () => {
    cluster = await startCluster();
    const bin = await programFolder(cluster.folder);
    const { env: forKubectl } = await cluster.kubectlCommand();
    env = { ...forKubectl, PATH: `${bin}:${process.env['PATH'] ?? ''}`, NO_PROXY: '*', no_proxy: '*' };
    await install(cluster);
    await rolledOut(cluster);
  });
  after(async () => await cluster?.stop());

  step('no probe of the kubelet failed while the Pods started', async () => {
    const events = await cluster.api.list(`/api/v1/namespaces/${HOME}/events`, { fieldSelector: 'reason=Unhealthy' });
    assert.deepEqual(
      events.map(({ message }) => message),
      [],
    );
  });

  step('helm test of the installed chart passes', async () => {
    const { code, stdout, stderr } = await helm(['test', RELEASE, `--namespace=${HOME}`], cluster.kubeconfigPath);
    assert.equal(code, 0, stdout + stderr);
  });

  step('after a crash, the next container of the same Pod takes the Lease within 8 s', async (t) => {
    using yardstick = new Yardstick();
    const leader = await leaderOf(cluster);
    const holder = await holderOf(cluster);
    const killedAt = performance.now();
    await cluster.ctr('task', 'kill', '--signal=SIGKILL', containerOf(leader));
    const next = await waitFor(
      async () => {
        const now = await holderOf(cluster);
        return now !== holder && now;
      },
      { message: 'another holder', intervalMs: 50 },
    );
    const heldAfterMs = performance.now() - killedAt;
    t.diagnostic(`taken after ${heldAfterMs.toFixed(0)} ms`);
    assert.equal(next.split('_', 2).join('_'), `${leader.metadata.name}_${leader.metadata.uid}`);
    assertWithin(heldAfterMs, RESTARTED_MS, 'the next container', yardstick.stretch);
    await rolledOut(cluster);
  });

  for (const { page, block } of BLOCKS) {
    step(`the commands of ${page}, section "${block.heading}", end without an error`, async () => {
      const [pod] = await podsOf(cluster);
      const terminal = new Terminal(cluster.namespace.pid, cluster.folder, env);
      try {
        for (const command of block.commands([REASON])) {
          const text = replaced(command).replaceAll(/\bPOD\b/g, pod?.metadata.name);
          const { code, output } = await terminal.run(text, COMMAND_TIMEOUT_MS);
          assert.ok(mayEndWith(code, text), `${text}\nended with ${code}:\n${output}`);
          for (const [pattern, printed] of PRINTED) if (pattern.test(text)) assert.match(output, printed, text);
        }
      } finally {
        await terminal.close();
      }
    });
  }
});
