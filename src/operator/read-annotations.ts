/** The annotations that this process keeps of objects at any length. */
import type { Config } from '../config/config.ts';
import { CONTROLLER_LIST } from '../controllers/list.ts';
import type { IsRead } from '../copy/model/observed.ts';
import { OVERWRITTEN_MARK } from '../copy/plan/plan-write.ts';
import { PLACE_ANNOTATION } from '../copy/plan/marks.ts';

/**
 * Those that a controller reads, whether it runs here or not: another process may have made the object. But a tenant may give any number of
 * objects such annotations, so a process that serves only tenants keeps those of its own controllers.
 */
export function readAnnotations(config: Config): IsRead {
  const running = CONTROLLER_LIST.filter(({ name }) => config.controllers.includes(name));
  const isForTenants = running.every(({ hasTenants }) => hasTenants === true);
  const readers = (isForTenants ? running : CONTROLLER_LIST).map((entry) => entry.annotationReader(config));
  return (annotation) => {
    if (annotation === PLACE_ANNOTATION || annotation === OVERWRITTEN_MARK) return true;
    for (const isRead of readers) {
      const read = isRead(annotation);
      if (read !== false) return read;
    }
    return false;
  };
}
