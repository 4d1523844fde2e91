/** What the views need of the page. */
import type { MapView } from './map.ts';
import type { Model } from './model.ts';

export interface App {
  readonly model: Model;
  readonly map: MapView;
  /** Wall clock, ms. Of a report, its time. */
  readonly now: number;
}
