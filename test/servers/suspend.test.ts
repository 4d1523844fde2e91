import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, readdirSync } from 'node:fs';
import { it } from 'node:test';

import { PATIENCE_MS, waitFor } from '../support/wait-for.ts';
import { resumeProcess, suspendProcess } from './suspend.ts';

it(
  'after suspendProcess(), no thread of the process runs',
  { skip: process.platform !== 'linux' && 'needs /proc' },
  async () => {
    // In addition to Node's own threads, this process has two that compute without end.
    const script = `new (require('node:worker_threads').Worker)('for (;;);', { eval: true }); console.log('up'); for (;;);`;
    const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
    try {
      await once(child.stdout, 'data', { signal: AbortSignal.timeout(PATIENCE_MS) });
      const pid = child.pid!;
      const states = (): string[] =>
        readdirSync(`/proc/${pid}/task`).map(
          (thread) => /^State:\s+(\S)/m.exec(readFileSync(`/proc/${pid}/task/${thread}/status`, 'utf8'))?.[1] ?? '',
        );
      for (let round = 0; round < 20; round += 1) {
        await suspendProcess(pid);
        assert.deepEqual(new Set(states()), new Set(['T']));
        resumeProcess(pid);
        await waitFor(() => states().includes('R'), { intervalMs: 1, message: 'it to run again' });
      }
    } finally {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
  },
);
