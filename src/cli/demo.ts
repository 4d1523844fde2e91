/** `keyferry demo`: runs the checkout's demo with the Node that runs this. */
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { DemoOptions } from './actions.ts';
import { checkoutFile } from './checkout.ts';

const SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP'];

/**
 * Runs until the demo ends; signals are passed on.
 * @param script path of the program that runs
 * @returns the demo's exit code
 * @throws Error outside a checkout
 */
export async function runDemo(options: DemoOptions, script = process.argv[1]): Promise<number> {
  const file = checkoutFile(script, 'demo/main.ts');
  const args: string[] = [];
  if (options.once) args.push('--once');
  if (options.kubeconfig !== undefined) args.push('--kubeconfig', options.kubeconfig);
  if (options.context !== undefined) args.push('--context', options.context);
  const child = spawn(process.execPath, [file, ...args], { stdio: 'inherit' });
  const passOn = (signal: NodeJS.Signals): void => void child.kill(signal);
  for (const signal of SIGNALS) process.on(signal, passOn);
  try {
    return await new Promise<number>((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, signal) => resolve(code ?? 128 + (signal === null ? 0 : constants.signals[signal])));
    });
  } finally {
    for (const signal of SIGNALS) process.off(signal, passOn);
  }
}
