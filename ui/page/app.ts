/** What the views need of the page. */
import type { PlanReport } from '../../scripts/reports/schemas.ts';
import type { Route } from './address.ts';
import type { Model } from './model.ts';

export interface App {
  readonly model: Model;
  readonly route: Route;
  readonly now: number;
  /** Plans manifests. @throws Error, whose message is for the user. `undefined`: a report file has no server */
  readonly plan: ((manifests: string) => Promise<PlanReport>) | undefined;
}
