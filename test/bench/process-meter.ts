/**
 * Measures CPU time and memory of a process and its descendants, from /proc of Linux. If a process has exited and its
 * parent has waited for it, the kernel adds its CPU time to the parent.
 *
 * Private memory (RssAnon) is memory that the program itself allocates. RSS also includes pages of the binary, which
 * all processes of the program share. The kernel knows the peak of RSS (VmHWM); the peak of RssAnon comes from samples.
 */
import { readdirSync, readFileSync } from 'node:fs';

/** USER_HZ (`getconf CLK_TCK`). It is 100 on every Linux that Node supports. */
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

  /** CPU time (user and system) until now, s. */
  cpuSeconds(): number {
    let ticks = 0;
    for (const pid of this.#tree()) {
      // The command's name is in brackets and may have any characters. The text after it begins with the 3rd field;
      // utime is the 14th field.
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

  /** The largest memory until now. */
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

/** The text of a file in /proc; '' if the process has exited meanwhile. */
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
