/** Measures the page of `keyferry ui` in Debian's Chromium, beside Keyferry with SecretMirrors. */
import { PAGE_ROW } from '../page-row.ts';
import type { BenchSystem } from '../system.ts';

export const pageSystem = (): BenchSystem => ({
  name: 'page',
  rows: [PAGE_ROW],
  args: ['run', '--controllers', 'mirrors'],
  install: async ({ plane, crds }) => {
    await plane.api.apply(crds);
  },
});
