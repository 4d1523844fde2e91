/** Reads memory and CPU time of a running process from /proc. On systems other than Linux, these functions throw. */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';

/** Memory of a process, in bytes. */
export interface MemoryFigures {
  /** Resident memory with shared pages (VmRSS). */
  readonly rss: number;
  /** Memory that only this process uses (RssAnon). */
  readonly private: number;
  /** The largest resident memory until now (VmHWM). */
  readonly peakRss: number;
}

/** Clock ticks per second in /proc. They are 100 on every Linux that Node supports (`getconf CLK_TCK`). */
const TICKS_PER_SECOND = 100;

export async function readMemory(pid: number): Promise<MemoryFigures> {
  const text = await readFile(`/proc/${pid}/status`, 'utf8');
  const field = (name: string): number => {
    const kilobytes = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1];
    if (kilobytes === undefined) throw new Error(`/proc/${pid}/status has no ${name}`);
    return Number(kilobytes) * 1024;
  };
  return { rss: field('VmRSS'), private: field('RssAnon'), peakRss: field('VmHWM') };
}

/** CPU time (user and system) of all threads since the start of the process, s. */
export async function readCpuSeconds(pid: number): Promise<number> {
  return cpuSeconds(await readFile(`/proc/${pid}/stat`, 'utf8'), 2);
}

/** CPU time of this process, of its ended child processes, and of their own children, s. 0 if it is not Linux. */
export function cpuSecondsWithChildren(): number {
  return process.platform === 'linux' ? cpuSeconds(readFileSync('/proc/self/stat', 'utf8'), 4) : 0;
}

/** In the last line of a test process on stderr: its `cpuSecondsWithChildren`. */
export const CPU_LINE = /^cpu seconds: ([\d.]+)\n$/;

export function cpuLine(): string {
  return `cpu seconds: ${cpuSecondsWithChildren()}\n`;
}

/** @param times - 2: user and system time of the process; 4: those of its ended children, too */
function cpuSeconds(stat: string, times: 2 | 4): number {
  // The second field is the command's name in brackets, with any characters in it. All fields after it are numbers.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return fields.slice(11, 11 + times).reduce((sum, field) => sum + Number(field), 0) / TICKS_PER_SECOND;
}

/**
 * How long the main thread had work to do, but other threads had the processors, since its start, ms. 0 if the kernel
 * does not count this time.
 */
export async function readWaitMs(pid: number): Promise<number> {
  try {
    const [, nanoseconds] = (await readFile(`/proc/${pid}/schedstat`, 'utf8')).split(' ');
    return Number(nanoseconds) / 1e6;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0;
    throw error;
  }
}
