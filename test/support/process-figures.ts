/** Memory and CPU time of a running process, from /proc (Linux; on other systems these functions throw). */
import { readFile } from 'node:fs/promises';

/** Memory figures, in bytes. */
export interface MemoryFigures {
  /** Resident set, shared pages included (VmRSS). */
  readonly rss: number;
  /** Memory that only this process uses (RssAnon). */
  readonly private: number;
  /** The largest resident set so far (VmHWM). */
  readonly peakRss: number;
}

/** Clock ticks a second in /proc: 100 on every Linux that Node runs on (`getconf CLK_TCK`). */
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

/** CPU time in user and system mode of all threads since the start, s. */
export async function readCpuSeconds(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  // The second field is the name of the command in brackets, which may have any character. The fields after it are
  // numbers.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND;
}

/**
 * The time for which the main thread has waited for a processor since its start, ms: it could run, but others ran. 0 if
 * the kernel does not count this.
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
