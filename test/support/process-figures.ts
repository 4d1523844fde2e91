/** Reads memory and CPU time of a running process from /proc. On systems other than Linux, these functions throw. */
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
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The second field is the command's name in brackets, with any characters in it. All fields after it are numbers.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
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
