/** The row of the page: how long it takes to see 20,000 copies, to filter them, and to see a change. */
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

import { runProgram } from '../scenarios/cli/program.ts';
import { startPage } from '../scenarios/ui/program.ts';
import type { ControlPlane } from '../servers/control-plane.ts';
import type { TestApi } from '../support/api.ts';
import { Browser, type Tab, WITHOUT_BROWSER } from '../support/browser.ts';
import { waitFor } from '../support/wait-for.ts';
import { Latencies } from './copy-tracker.ts';
import type { Environment } from './environment.ts';
import { makeRules, MIRRORS_PATH, pageCopies, pageMirror, RULES } from './page-work.ts';
import { ProcessMeter } from './process-meter.ts';
import { type Figure, type Row, seconds } from './rows.ts';

const KB = 1000;
const CHANGES = 7;
/** Each key that is typed gives one filter. */
const WORDS = ['page-1', 'wide-0', 'narrow', 'conflict', 'nothing at all'];

export const PAGE_ROW: Row = { id: 'page', measure: measurePage };

async function measurePage(environment: Environment): Promise<Figure[]> {
  if (WITHOUT_BROWSER !== false) throw new Error(`the page ${WITHOUT_BROWSER}`);
  const { plane, tracker, options } = environment;
  await tracker.expect(pageCopies(), '1', options.timeoutMs, async () => {
    await environment.start();
    await makeRules(plane.api, '1');
  });
  await environment.settled();
  return await measureUi(plane);
}

/** @param plane has the copies */
export async function measureUi(plane: Pick<ControlPlane, 'kubeconfigPath' | 'api' | 'folder'>): Promise<Figure[]> {
  const file = path.join(plane.folder, 'report.html');
  const [outTime] = await timed(async () => {
    const { code, stderr } = await runProgram(['ui', '--out', file, '--kubeconfig', plane.kubeconfigPath]);
    if (code !== 0) throw new Error(stderr);
  });
  const begun = performance.now();
  await using page = await startPage(plane.kubeconfigPath);
  const lists = performance.now() - begun;
  using meter = new ProcessMeter(page.program.pid);
  const parts = await Promise.all(['/', '/page.js', '/page.css'].map(async (one) => await fetch(page.origin + one)));
  const texts = await Promise.all(parts.map(async (part) => await part.text()));
  await using browser = await Browser.start();
  const tab = await browser.open(page.url);
  await tab.send('Performance.enable', { timeDomain: 'threadTicks' });
  const first = await worked(tab, FIRST_VIEW);
  const filter = await worked(tab, `${AFTER}; ${FILTER}`);
  const hover = await worked(tab, `${AFTER}; ${HOVER}`);
  const cpuBefore = meter.cpuSeconds();
  const change = await changes(plane.api, tab);
  const cpu = (meter.cpuSeconds() - cpuBefore) / CHANGES;
  const ms = (id: string, title: string, value: number, note?: string): Figure => ({
    id: `page.${id}`,
    title,
    value,
    unit: 'ms',
    ...(note !== undefined && { note }),
  });
  const spread = (all: Latencies, cpuMs: number): string =>
    `median ${all.quantile(0.5).toFixed(0)} ms, worst ${all.last.toFixed(0)} ms, ${cpuMs.toFixed(0)} ms of CPU each`;
  return [
    {
      id: 'page.lists',
      title: `lists and first report of ${pageCopies().length} copies, start included`,
      value: seconds(lists),
      unit: 's',
    },
    ms('first', 'then the first view is drawn', first.times.last, `${first.cpuMs.toFixed(0)} ms of CPU`),
    ms('filter', 'a key in the search (p95)', filter.times.quantile(0.95), spread(filter.times, filter.cpuMs)),
    ms('hover', 'the pointer moves on the map (p95)', hover.times.quantile(0.95), spread(hover.times, hover.cpuMs)),
    {
      id: 'page.change',
      title: 'a new rule is on the page (median)',
      value: seconds(change.quantile(0.5)),
      unit: 's',
      note: spread(change, cpu * 1000),
    },
    {
      id: 'page.size',
      title: 'page, compressed',
      value: sum(texts.map((text) => gzipSync(text).length)) / KB,
      unit: 'kB',
    },
    { id: 'page.report', title: 'report in a file', value: (await stat(file)).size / KB, unit: 'kB' },
    { id: 'page.out', title: '… written within, start included', value: seconds(outTime), unit: 's' },
    { id: 'page.rss', title: 'peak memory of keyferry ui (RSS)', value: meter.peak().rssMiB, unit: 'MiB' },
  ];
}

/** The times that an expression gives, and the CPU time of the page's thread for each. */
async function worked(tab: Tab, expression: string): Promise<{ times: Latencies; cpuMs: number }> {
  const cpu = async (): Promise<number> => {
    const { metrics } = (await tab.send('Performance.getMetrics')) as { metrics: { name: string; value: number }[] };
    return 1000 * (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN);
  };
  // The first view begins with the page.
  const before = expression === FIRST_VIEW ? 0 : await cpu();
  const times = [(await tab.eval(expression)) as number | number[]].flat();
  return { times: new Latencies(times), cpuMs: ((await cpu()) - before) / times.length };
}

/** How long the page takes to show a rule that is made. */
async function changes(api: TestApi, tab: Tab): Promise<Latencies> {
  const times: number[] = [];
  for (let at = 1; at <= CHANGES; at += 1) {
    const [time] = await timed(async () => {
      await api.create(pageMirror(`more-${at}`, 'narrow-000', 'page-499'));
      const isSeen = async (): Promise<boolean> =>
        (await tab.eval(
          `document.querySelector('.counts .end').textContent.includes('${RULES + at} rules')`,
        )) as boolean;
      await waitFor(isSeen, { intervalMs: 10, message: 'the new rule' });
    });
    times.push(time);
  }
  for (let at = 1; at <= CHANGES; at += 1) await api.delete(`${MIRRORS_PATH}/more-${at}`);
  return new Latencies(times);
}

async function timed<T>(work: () => Promise<T>): Promise<[number, T]> {
  const begun = performance.now();
  const result = await work();
  return [performance.now() - begun, result];
}

const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);

/** Time since the navigation, when the frame with the map was drawn, ms. */
const FIRST_VIEW = `new Promise((resolve) => {
  const look = () => document.querySelector('.line') === null
    ? setTimeout(look, 5)
    : requestAnimationFrame(() => setTimeout(() => resolve(performance.now())));
  look();
})`;
/** The times from an action until the frame after it is drawn, ms. */
const AFTER = `async function after(actions) {
  const times = [];
  for (const act of actions) {
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    const begun = performance.now();
    act();
    await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
    times.push(performance.now() - begun);
  }
  return times;
}`;
const FILTER = `(async () => {
  const search = document.querySelector('input[type=search]');
  const keys = ${JSON.stringify(WORDS)}.flatMap((word) => [...word].map((_, at) => word.slice(0, at + 1)).concat(''));
  return await after(keys.map((text) => () => {
    search.value = text;
    search.dispatchEvent(new Event('input'));
  }));
})()`;
const HOVER = `(async () => {
  const map = document.querySelector('.scroll');
  const box = map.getBoundingClientRect();
  return await after(Array.from({ length: 60 }, (_, at) => () => map.dispatchEvent(new PointerEvent('pointermove', {
    bubbles: true, clientX: box.left + 320 + at * 13, clientY: box.top + 5 + (at * 7) % box.height,
  }))));
})()`;
