/** A cluster of olli-ai/k8s-replicator: its annotations are those of Keyferry's replicator. Pure. */
import { isAnnotated } from '../../controllers/replicator/annotations.ts';
import type { Found, View } from './model.ts';

/** What differs is in the decisions on the copies, which the report has for all systems. */
export function replicatorOf({ objects, names }: View): Found {
  let rules = 0;
  let copies = 0;
  for (const { annotations } of objects.values()) {
    if (!isAnnotated(names, annotations)) continue;
    if (names.by in annotations) copies += 1;
    else rules += 1;
  }
  return { rules, copies, findings: [], changes: [], steps: [] };
}
