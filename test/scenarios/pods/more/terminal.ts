import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';

import { Reaper } from '../../../servers/reaper.ts';

/** The line that the terminal prints after a command, with its exit code. */
const ENDED = /^ended with code (\d+)$/;

export interface Ended {
  readonly code: number;
  /** Output to stdout and stderr, of this command and of earlier commands that still run in the background. */
  readonly output: string;
}

/** A bash that runs one command after the other. Its variables and background commands stay until it is closed. */
export class Terminal {
  readonly #child: ChildProcess;
  readonly #lines: Interface;
  readonly #exit: Promise<unknown>;

  /** @param network - pid of a process whose network namespace bash joins, so that the ports in a page are free */
  constructor(network: number, cwd: string, env: NodeJS.ProcessEnv) {
    // Bash gets its own process group, so that `close` can also end the commands in the background.
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

  /** Runs a command until it ends. @throws Error if that takes longer than `timeoutMs` */
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
      // The command must not read the next commands as its input.
      this.#child.stdin!.write(`{ ${command}\n} </dev/null\nprintf '\\nended with code %d\\n' $?\n`);
    });
  }

  /** Ends bash and all commands that still run in the background. */
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
