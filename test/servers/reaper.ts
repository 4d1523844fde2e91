/**
 * Makes sure that nothing outlives this process, however it ends (exit, crash, kill -9). A small shell has the read end
 * of a pipe, and a list of this process's child processes and temporary folders. When the pipe closes, it ends and
 * removes them.
 *
 * Protocol, one line each: `+PID`, `-PID`, `+/folder`, `-/folder`. The shell is in a session of its own, so that a
 * Ctrl-C in a terminal does not end it first, and no process waits for it.
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

/** The one reaper of this process. `shared()` makes it at its first call. */
const holder: { reaper?: Reaper } = {};

export class Reaper {
  readonly #pipe: Socket;

  private constructor() {
    const shell = spawn('/bin/sh', ['-c', SCRIPT], { detached: true, stdio: ['pipe', 'ignore', 'ignore'] });
    shell.unref();
    // The type is Writable, but a child's stdin pipe is a net.Socket.
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

  /** @param pid - negative for a process group */
  addProcess(pid: number): void {
    this.#pipe.write(`+${pid}\n`);
  }

  /** Call it when the process has ended, because another process may get its id. */
  removeProcess(pid: number): void {
    this.#pipe.write(`-${pid}\n`);
  }

  /** Makes a temporary folder, which is removed when this process ends. */
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
