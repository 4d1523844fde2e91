/** What Keyferry would do with the copies of a cluster when it starts there. */
import type { Snapshot } from '../../controllers/common/snapshot/snapshot.ts';
import type { ResourceKey } from '../../copy/model/keys.ts';
import type { Decision } from '../../copy/plan/decide.ts';
import type { PlannedTarget } from '../plan/report.ts';
import { rowsOn } from '../plan/rows.ts';

export interface Start {
  /** Copies that would be made, deleted or get other data, and those that a rule does not get. */
  readonly rows: readonly { readonly target: ResourceKey; readonly row: PlannedTarget }[];
  /** Targets whose data would be replaced or lost, or that Keyferry would not touch. */
  readonly different: ReadonlyMap<ResourceKey, string>;
  /** Number of copies that keep their data. Some get labels and annotations of Keyferry. */
  readonly unchanged: number;
}

type Rows = ReturnType<typeof rowsOn>;

/** @throws the errors of `api.request` */
export async function startOf(snapshot: Snapshot): Promise<Start> {
  const targets = targetsIn(snapshot);
  await snapshot.decide(targets);
  const rows: { target: ResourceKey; row: PlannedTarget }[] = [];
  const different = new Map<ResourceKey, string>();
  let unchanged = 0;
  for (const target of [...targets].toSorted()) {
    const { plan } = snapshot.decisionOn(target);
    const { main, losers } = withoutAdvice(snapshot, target, rowsOn(snapshot, target));
    if (main.action === 'nothing' || keepsData(plan)) unchanged += 1;
    else {
      rows.push({ target, row: main });
      if (main.action !== 'create' && main.action !== 'wait') different.set(target, main.reason);
    }
    for (const { row } of losers) rows.push({ target, row });
  }
  return { rows, different, unchanged };
}

/** Elsewhere a conflict with an object of others advises to delete it. Here it may be the source or the copy of another program. */
function withoutAdvice({ claims, inventory }: Snapshot, target: ResourceKey, rows: Rows): Rows {
  const observed = inventory.objects.get(target);
  if (observed === undefined || claims.ownerOf(observed, target) !== undefined) return rows;
  const reason = 'exists already and is not managed by Keyferry: it stays as it is';
  const own = (row: PlannedTarget): PlannedTarget => (row.action === 'conflict' ? { ...row, reason } : row);
  return { main: own(rows.main), losers: rows.losers.map(({ owner, row }) => ({ owner, row: own(row) })) };
}

/** The targets of all rules, and the copies whose rule does not claim them or does not exist. */
function targetsIn({ rules, claims, inventory }: Snapshot): Set<ResourceKey> {
  const targets = new Set<ResourceKey>();
  for (const rule of rules.keys()) for (const { claim } of claims.book.of(rule)) targets.add(claim.target);
  for (const [key, observed] of inventory.objects) {
    if (claims.ownerOf(observed, key) !== undefined) targets.add(key);
  }
  return targets;
}

function keepsData(plan: Decision['plan']): boolean {
  return plan.do === 'update' && !plan.withData;
}
