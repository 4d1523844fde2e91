/**
 * Makes sure that no child process and no temporary folder outlives this process, even after a crash or kill -9. A
 * small shell keeps a list of them. The shell reads a pipe whose other end is in this process. When this process ends,
 * the pipe closes, and the shell kills the processes and deletes the folders.
 *
 * Protocol, one command a line: `+PID`, `-PID`, `+/folder`, `-/folder`. The shell has its own session, so that Ctrl-C
 * in a terminal does not end it.
 */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Socket } from 'node:net';

const SCRIPT = `
pids=' '; folders=
while IFS= read -r line; do
  case $line in
    +/*) folders="$folders
\${line#+}" ;;
    +*) pids="$pids\${line#+} " ;;
    -/*) gone=\${line#-}; kept=
      while IFS= read -r folder; do
        [ -n "$folder" ] && [ "$folder" != "$gone" ] && kept="$kept
$folder"
      done <<END
$folders
END
      folders=$kept ;;
    -*) pid=\${line#-}; case $pids in *" $pid "*) pids="\${pids%% $pid *} \${pids#* $pid }" ;; esac ;;
  esac
done
for pid in $pids; do kill -9 "$pid" 2>/dev/null; done
printf '%s\\n' "$folders" | while IFS= read -r folder; do
  if [ -n "$folder" ]; then rm -rf "$folder" || { sleep 1; rm -rf "$folder"; }; fi
done
`;

/** The reaper of this process. The first call of `shared()` makes it. */
const holder: { reaper?: Reaper } = {};

export class Reaper {
  readonly #pipe: Socket;

  private constructor() {
    const shell = spawn('/bin/sh', ['-c', SCRIPT], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
    shell.unref();
    // Its type is Writable, but the stdin of a child process is a net.Socket.
    this.#pipe = shell.stdin as Socket;
    this.#pipe.unref();
    this.#pipe.on('error', (error) => {
      process.emitWarning(`the reaper of server processes is gone: ${error.message}`);
    });
  }

  static shared(): Reaper {
    holder.reaper ??= new Reaper();
    return holder.reaper;
  }

  /** Kills this process when the own process ends. @param pid - negative for a process group */
  addProcess(pid: number): void {
    this.#pipe.write(`+${pid}\n`);
  }

  /** Call it after the process has ended, because the system may give its id to another process. */
  removeProcess(pid: number): void {
    this.#pipe.write(`-${pid}\n`);
  }

  /** Makes a temporary folder. It is deleted when this process ends. */
  async temporaryFolder(prefix: string): Promise<string> {
    const folder = await mkdtemp(path.join(tmpdir(), prefix));
    this.#pipe.write(`+${folder}\n`);
    return folder;
  }

  async removeFolder(folder: string): Promise<void> {
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
    this.#pipe.write(`-${folder}\n`);
  }
}
