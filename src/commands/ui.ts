/**
 * `keyferry ui` shows the cluster's copies on a page in the browser, or writes the page with its data into a file. The
 * page and its server are in `ui/`, a bundle of their own that only this command loads.
 */
import type { PageSource } from '../../ui/data.ts';
import type { PlanReport } from '../../scripts/reports/schemas.ts';
import { errorText } from '../observe/error-fields.ts';
import { sleep } from '../runtime/abort.ts';
import { EXIT_DONE, type UiOptions } from './actions.ts';
import { type CommandContext, type CommandResult, readSnapshot } from './output/reading.ts';
import { runningOriginals } from './output/originals.ts';
import { planFiles } from './plan.ts';
import type { Contents } from './snapshot/contents.ts';
import { type Lister, listerOf } from './snapshot/inventory.ts';
import { leadersOf } from './status/leaders.ts';
import { statusReport } from './status/report.ts';
import { KeptLists } from './ui/kept-lists.ts';
import { pageData } from './ui/page-data.ts';

/** Changes within this time are shown together, ms. It is at least the time that the last report took. */
const SETTLE_MS = 150;
/** How often the state of the connection is looked at, ms. */
const TICK_MS = 500;
/** Longest time between two reports, ms: the next one shows new APIs, and the Lease. */
const REPORT_MS = 60_000;
/** As `REPORT_MS`, if the caller may list a kind but not watch it. */
const UNWATCHED_MS = 10_000;

/** @throws the errors of `api.request`, and Error if this installation has no page */
export async function ui(context: CommandContext, options: UiOptions): Promise<CommandResult> {
  const { stdout, stderr, now, signal } = context;
  const { showPage } = await loadPage();
  await showPage(pageSource(context, options), options, { stdout, stderr, now, signal });
  return { text: '', code: EXIT_DONE };
}

async function loadPage() {
  try {
    return await import('../../ui/server/show-page.ts');
  } catch (error) {
    throw new Error(
      'this installation has no page, because its file dist/keyferry-ui.cjs is missing: the image has none. Use the npm package or a checkout',
      { cause: error },
    );
  }
}

function pageSource(context: CommandContext, options: UiOptions): PageSource {
  const { api, cluster, now, progress } = context;
  const { config, namespace } = options;
  let contents: Contents | undefined;
  const read = async (lister: Lister) => {
    // The progress line appears only for the first report, because the user waits for it.
    using _ = progress;
    const snapshot = await readSnapshot(context, { config, contents, lister }, namespace);
    contents = snapshot.contents;
    const leaders = namespace === undefined ? await leadersOf(context, options.leaseName) : { leaders: [] };
    const running = await runningOriginals(context, config.controllers);
    const findings = await statusReport(snapshot, cluster, { namespace, orphans: false }, { ...leaders, running });
    const { requireConsent } = config.limits;
    return pageData(snapshot, findings, { cluster: api.cluster, requiresConsent: requireConsent, now: now() });
  };
  return {
    cluster,
    read: async () => await read(listerOf(api)),
    follow: async (onData, onTrouble, signal) => {
      let change = Promise.withResolvers<void>();
      let hasData = false;
      await using lists = new KeptLists(api, () => change.resolve());
      while (!signal.aborted) {
        try {
          change = Promise.withResolvers();
          const begun = now();
          onData(await read(lists.lister));
          hasData = true;
          const took = now() - begun;
          const until = now() + (lists.isPartial ? UNWATCHED_MS : REPORT_MS);
          const seen = change.promise.then(() => true);
          do onTrouble(lists.trouble);
          while (!(await Promise.race([seen, sleep(TICK_MS, signal).then(() => now() >= until)])));
          await sleep(Math.max(SETTLE_MS, took), signal);
        } catch (error) {
          if (signal.aborted) return;
          if (!hasData) throw error;
          onTrouble(errorText(error));
          await sleep(TICK_MS, signal).catch(() => undefined);
        }
      }
    },
    plan: async (manifests) => {
      const plan = { ...options, output: 'json', files: ['-'], recursive: false, all: false } as const;
      const { text } = await planFiles({ ...context, stdin: () => Promise.resolve(manifests) }, plan);
      return JSON.parse(text) as PlanReport;
    },
  };
}
