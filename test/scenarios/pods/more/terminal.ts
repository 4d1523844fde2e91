import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';

import { Reaper } from '../../../servers/reaper.ts';

/** A line with the exit code of the last command. */
const ENDED = /^ended with code (\d+)$/;

export interface Ended {
  readonly code: number;
  /** stdout and stderr of the command, and of those in the background. */
  readonly output: string;
}

/** A bash that gets one command after the other. Its variables and the commands in the background stay until it is closed. */
export class Terminal {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #exit: Promise<unknown>;

  /** @param network process whose network namespace it joins, so that a port of the page is free */
  constructor(network: number, cwd: string, env: NodeJS.ProcessEnv) {
    // A group of its own, with the commands in the background.
    this.#child = spawn('nsenter', [`--net=/proc/${network}/ns/net`, 'bash', '-o', 'pipefail'], {
      cwd,
      env,
      detached: true,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    if (this.#child.pid !== undefined) Reaper.shared().addProcess(-this.#child.pid);
    this.#exit = once(this.#child, 'close');
    this.#child.stdin!.write('exec 2>&1\n');
    this.#lines = createInterface({ input: this.#child.stdout! });
  }

  /** Runs a command to its end. @throws Error if that takes longer than `timeoutMs` */
  async run(command: string, timeoutMs: number): Promise<Ended> {
    const output: string[] = [];
    return new Promise((resolve, reject) => {
      const finish = (): void => {
        clearTimeout(timer);
        this.#lines.off('line', onLine).off('close', onClose);
      };
      const fail = (why: string): void => {
        finish();
        reject(new Error(`${command}\n${why}:\n${output.join('\n')}`));
      };
      const onLine = (line: string): void => {
        const [, code] = ENDED.exec(line) ?? [];
        if (code === undefined) {
          output.push(line);
          return;
        }
        finish();
        resolve({ code: Number(code), output: output.join('\n') });
      };
      const onClose = (): void => fail('bash ended');
      const timer = setTimeout(() => fail(`did not end within ${timeoutMs} ms`), timeoutMs);
      this.#lines.on('line', onLine).on('close', onClose);
      // The next commands are not input of this one.
      this.#child.stdin!.write(`{ ${command}\n} </dev/null\nprintf '\\nended with code %d\\n' $?\n`);
    });
  }

  /** Ends bash and all that its commands have left in the background. */
  async close(): Promise<void> {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, 'SIGKILL');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
    await this.#exit;
    Reaper.shared().removeProcess(-pid);
  }
}
