/** Tests the Linux namespaces of a cluster, without its servers: whether they change this machine or leave anything. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';

import { waitFor } from '../../support/wait-for.ts';
import { Reaper } from '../reaper.ts';
import { missingForPods } from './missing.ts';
import { Namespace } from './namespace.ts';

const SETTINGS = ['vm/overcommit_memory', 'vm/panic_on_oom', 'kernel/panic', 'kernel/panic_on_oops'].map(
  (setting) => `/proc/sys/${setting}`,
);
/** A script that opens namespaces and waits. It prints the id of the first process in them. */
const HOLDER = `
  const { Reaper } = await import(process.argv[1] + '/reaper.ts');
  const { Namespace } = await import(process.argv[1] + '/real-cluster/namespace.ts');
  const namespace = await Namespace.open(await Reaper.shared().temporaryFolder('keyferry-holder-'));
  console.log(namespace.pid);
  setInterval(() => undefined, 60_000);
`;

const settings = (): string[] => SETTINGS.map((file) => readFileSync(file, 'utf8').trim());
const devicesOf = (pid: number): string[] =>
  globSync('keyferry*', { cwd: '/sys/class/net' }).filter(
    (device) => readFileSync(`/sys/class/net/${device}/ifalias`, 'utf8').trim() === String(pid),
  );
const cgroupsOf = (pid: number): string[] =>
  globSync(['', '*/'].map((hierarchy) => `/sys/fs/cgroup/${hierarchy}keyferry-test-${pid}`));

describe('the namespaces of a cluster', { skip: missingForPods() }, () => {
  let folder: string;
  let holder: ChildProcess | undefined;

  before(async () => (folder = await Reaper.shared().temporaryFolder('keyferry-namespace-')));
  after(async () => {
    holder?.kill('SIGKILL');
    await Reaper.shared().removeFolder(folder);
  });

  const newFolder = async (name: string): Promise<string> => {
    await mkdir(path.join(folder, name));
    return path.join(folder, name);
  };

  it('after the Linux namespaces of a cluster are closed, nothing is left, and no setting of the machine has changed', async () => {
    const ofMachine = settings();
    const namespace = await Namespace.open(await newFolder('own'));
    try {
      assert.equal(devicesOf(namespace.pid).length, 1);
      const inside = await namespace.run('cat', ...SETTINGS);
      assert.deepEqual(inside.trim().split('\n'), ['1', '0', '10', '1']);
      await namespace.run('sh', '-c', `for file in ${SETTINGS.join(' ')}; do echo 7 > $file; done`);
      assert.deepEqual(settings(), ofMachine);
    } finally {
      await namespace.close();
    }
    assert.deepEqual([...devicesOf(namespace.pid), ...cgroupsOf(namespace.pid)], []);
  });

  it("if a test is killed, the next cluster removes what the test's Linux namespaces have left", async () => {
    const args = ['--input-type=module', '--eval', HOLDER, path.join(import.meta.dirname, '..')];
    holder = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const [line] = (await once(holder.stdout!, 'data', { signal: AbortSignal.timeout(60_000) })) as [Buffer];
    const pid = Number(line.toString());
    assert.equal(devicesOf(pid).length, 1);
    assert.ok(cgroupsOf(pid).length > 0);
    holder.kill('SIGKILL');
    await waitFor(() => !existsSync(`/proc/${pid}`), { message: 'the first process to end' });
    const next = await Namespace.open(await newFolder('next'));
    await next.close();
    assert.deepEqual([...devicesOf(pid), ...cgroupsOf(pid)], []);
  });
});
