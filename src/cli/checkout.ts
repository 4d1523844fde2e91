/** What lies beside the program in a checkout, and not in the image or the package. */
import { existsSync, realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';

/**
 * The file of a checkout that this program was started from: `dist/keyferry.cjs` or `src/cli/main.ts`.
 * @param script path of the program that runs: `process.argv[1]`
 * @throws Error naming what is missing
 */
export function checkoutFile(script: string | undefined, file: string): string {
  for (let folder = dirname(realpathSync(script ?? '.')); folder !== dirname(folder); folder = dirname(folder)) {
    if (!existsSync(join(folder, 'package.json'))) continue;
    const found = join(folder, file);
    if (existsSync(found)) return found;
    break;
  }
  throw new Error(`${file} is not here: this works only in a checkout of Keyferry, after npm ci`);
}
