import { hostname } from 'node:os';
import { randomUUID } from 'node:crypto';
import { daemonOf } from '../config/daemons.ts';
import { run } from './run.ts';

const config = daemonOf('run', ['mirrors']).configure(process.argv.slice(3), {
  env: process.env,
  hostname: hostname(),
  uniqueId: randomUUID(),
});
if (config === undefined) process.exit(2);
void run(config, process.env).then((code) => {
  process.exitCode = code;
});
