/**
 * The calls of one identity, with a lane for each mount. So a secrets engine that hangs, such as a database, delays no
 * other mount and no other identity. After two calls in a row without a usable answer, one call at a time tries whether
 * the mount answers, and others are refused. An error message of Vault is an answer. `Health` decides whether the server
 * answers at all.
 */
import { ByteCache } from '../../runtime/maps.ts';

/** Most lanes of one identity. Users choose the names of mounts, so without this limit lanes could fill the memory. */
const MOST_MOUNTS = 100;
/** Failures in a row after which one call at a time is sent. */
const FAILURES = 2;

/** The calls of one identity to one mount. */
export interface Lane {
  running: number;
  /** Calls in a row without a usable answer. */
  failures: number;
}

export function isRefused({ running, failures }: Lane): boolean {
  return running > 0 && failures >= FAILURES;
}

/** Finds the lane of a mount. The least recently used lanes are forgotten. */
export function lanes(): (mount: string) => Lane {
  const known = new ByteCache<Lane>({ maxBytes: MOST_MOUNTS });
  return (mount) => {
    const lane = known.get(mount) ?? { running: 0, failures: 0 };
    known.set(mount, lane, 1);
    return lane;
  };
}

/** Guesses the mount of a path: the first segment, or the first two segments below `auth/` and `sys/`. */
export function mountOfPath(path: string): string {
  const segments = path.split('/', 2);
  return segments[0] === 'auth' || segments[0] === 'sys' ? segments.join('/') : (segments[0] ?? '');
}
