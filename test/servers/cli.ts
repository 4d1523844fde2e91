/** `npm run servers [-- NAME…]` builds missing servers. Its last line is the folder that contains all of them. */
import { parseArgs } from 'node:util';

import { DEFAULT_SERVERS, isServerName, SERVER_NAMES } from './catalogue.ts';
import { ensureAll, serversFolder } from './ensure.ts';

const USAGE = `Usage: npm run servers [-- NAME…]

Makes real servers available for tests, demo and benchmark, and prints the folder that holds them.
NAME is one of ${SERVER_NAMES.join(', ')} (default: ${DEFAULT_SERVERS.join(', ')}).

Looked for in $KEYFERRY_SERVERS, $KUBEBUILDER_ASSETS and the cache; else built with Go from pinned modules.
`;

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    options: { help: { type: 'boolean', short: 'h' } },
    allowPositionals: true,
  });
  if (values.help === true) {
    process.stdout.write(USAGE);
    return 0;
  }
  const unknown = positionals.find((name) => !isServerName(name));
  if (unknown !== undefined) {
    process.stderr.write(`servers: unknown server "${unknown}"; known: ${SERVER_NAMES.join(', ')}\n`);
    return 2;
  }
  const names = positionals.length > 0 ? positionals.filter((name) => isServerName(name)) : DEFAULT_SERVERS;
  const paths = await ensureAll(names, { onProgress: (line) => void process.stderr.write(`servers: ${line}\n`) });
  process.stdout.write(`${await serversFolder(paths)}\n`);
  return 0;
}

try {
  process.exitCode = await main();
} catch (error) {
  const isUsage = String((error as NodeJS.ErrnoException).code).startsWith('ERR_PARSE_ARGS');
  process.stderr.write(`servers: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = isUsage ? 2 : 1;
}
