/**
 * Measures the CPU time and memory of a process and its descendants, from /proc of Linux. The CPU time of a process
 * that has exited counts for its parent, if the parent waited for it.
 *
 * Private memory (RssAnon) is what the program itself allocates. RSS also has pages of the binary, which all its
 * processes share. The peak of RSS comes from the kernel (VmHWM), that of RssAnon from samples.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** USER_HZ: the value of `getconf CLK_TCK` on every Linux that Node supports. */
const TICKS_PER_SECOND = 100;
const SAMPLE_MS = 20;

export interface Memory {
  readonly rssMiB: number;
  readonly privateMiB: number;
}

export class ProcessMeter implements Disposable {
  readonly #root: number;
  readonly #timer: NodeJS.Timeout;
  #peakPrivateKiB = 0;
  #peakRssKiB = 0;

  constructor(pid: number) {
    this.#root = pid;
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS);
    this.#sample();
  }

  /** User and system time so far, seconds. */
  cpuSeconds(): number {
    let ticks = 0;
    for (const pid of this.#tree()) {
      // The name of the command is in brackets and may have any character. In the text after it, state comes first: the
      // 3rd field. utime is the 14th.
      const fields = read(`/proc/${pid}/stat`)
        .replace(/^.*\) /su, '')
        .split(' ');
      ticks += [11, 12, 13, 14].reduce((sum, index) => sum + Number(fields[index] ?? 0), 0);
    }
    return ticks / TICKS_PER_SECOND;
  }

  memory(): Memory {
    this.#sample();
    return {
      rssMiB: this.#sum('VmRSS') / 1024,
      privateMiB: this.#sum('RssAnon') / 1024,
    };
  }

  /** The highest memory so far. */
  peak(): Memory {
    this.#sample();
    return { rssMiB: this.#peakRssKiB / 1024, privateMiB: this.#peakPrivateKiB / 1024 };
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #sample(): void {
    this.#peakPrivateKiB = Math.max(this.#peakPrivateKiB, this.#sum('RssAnon'));
    this.#peakRssKiB = Math.max(this.#peakRssKiB, this.#sum('VmHWM'));
  }

  #sum(field: string): number {
    return this.#tree().reduce((sum, pid) => sum + kibOf(read(`/proc/${pid}/status`), field), 0);
  }

  #tree(): number[] {
    const found = [this.#root];
    for (const pid of found) {
      for (const task of list(`/proc/${pid}/task`)) {
        const children = read(`/proc/${pid}/task/${task}/children`).trim();
        if (children !== '') found.push(...children.split(' ').map(Number));
      }
    }
    return found;
  }
}

function kibOf(status: string, field: string): number {
  const found = new RegExp(`^${field}:\\s+(\\d+) kB$`, 'mu').exec(status);
  return Number(found?.[1] ?? 0);
}

/** The text of a file in /proc; empty if the process has exited meanwhile. */
function read(file: string): string {
  return ifThere(() => readFileSync(file, 'utf8'), '');
}

function list(folder: string): string[] {
  return ifThere(() => readdirSync(folder), []);
}

function ifThere<T>(look: () => T, otherwise: T): T {
  try {
    return look();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH') return otherwise;
    throw error;
  }
}
