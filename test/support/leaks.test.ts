import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { describe, it } from 'node:test';

import { activeResources, assertNoLeaks, failOnLeaks } from './leaks.ts';

describe('assertNoLeaks', () => {
  it('assertNoLeaks() fails if a server still listens', async () => {
    const baseline = activeResources();
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    await assert.rejects(assertNoLeaks(baseline, 50), /TCPServerWrap/);
    server.close();
    await assertNoLeaks(baseline);
  });

  it('assertNoLeaks() fails if a timer still runs', async () => {
    const baseline = activeResources();
    const timer = setInterval(() => undefined, 1000);
    await assert.rejects(assertNoLeaks(baseline, 50), /Timeout/);
    clearInterval(timer);
    await assertNoLeaks(baseline);
  });

  it('assertNoLeaks() fails if a child process still runs', async () => {
    const baseline = activeResources();
    const child = spawn('/bin/sleep', ['60'], { stdio: 'ignore' });
    await assert.rejects(assertNoLeaks(baseline, 50), /ProcessWrap/);
    child.kill('SIGKILL');
    await assertNoLeaks(baseline);
  });
});

failOnLeaks();
