import assert from 'node:assert/strict';
import { test } from 'node:test';

import { command } from './command.ts';

test('a command in a message begins with npx only if npx started this process', (context) => {
  const before = process.env['npm_command'];
  context.after(() => {
    if (before === undefined) delete process.env['npm_command'];
    else process.env['npm_command'] = before;
  });
  for (const other of ['', 'test', 'run-script']) {
    process.env['npm_command'] = other;
    assert.equal(command('crds'), 'keyferry crds');
  }
  process.env['npm_command'] = 'exec';
  assert.equal(command('crds'), 'npx --no keyferry crds');
});
