/**
 * `keyferry ui` shows the cluster's copies on a page in the browser, or writes the page with its data into a file. The
 * page and its server are in `ui/`, a bundle of their own that only this command loads.
 */
import type { PageSource } from '../../ui/data.ts';
import type { PlanReport } from '../../scripts/reports/schemas.ts';
import { EXIT_DONE, type UiOptions } from './actions.ts';
import { type CommandContext, type CommandResult, readSnapshot } from './output/reading.ts';
import { runningOriginals } from './output/originals.ts';
import { planFiles } from './plan.ts';
import type { Contents } from './snapshot/contents.ts';
import { type Lister, listerOf } from './snapshot/inventory.ts';
import { follow } from './snapshot/kept-lists.ts';
import { statusReport } from './status/report.ts';
import { pageData } from './ui/page-data.ts';

/** @throws the errors of `api.request`, and Error if this installation has no page */
export async function ui(context: CommandContext, options: UiOptions): Promise<CommandResult> {
  const { showPage } = await loadPage();
  await showPage(pageSource(context, options), options, context);
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
  const { api, cluster, now } = context;
  const { config, namespace } = options;
  let contents: Contents | undefined;
  const read = async (lister: Lister) => {
    const snapshot = await readSnapshot(context, { config, contents, lister }, namespace);
    contents = snapshot.contents;
    const running = await runningOriginals(context, config.controllers);
    const findings = await statusReport(snapshot, cluster, { namespace, orphans: false }, { leaders: [], running });
    return pageData(findings, { requiresConsent: config.limits.requireConsent, now: now() });
  };
  return {
    cluster,
    read: async () => await read(listerOf(api)),
    follow: async (onReport, onState, signal) => await follow(api, { report: read, onReport, onState }, signal),
    plan: async (manifests) => {
      const plan = { ...options, output: 'json', files: ['-'], recursive: false, all: false } as const;
      const { text } = await planFiles({ ...context, stdin: () => Promise.resolve(manifests) }, plan);
      return JSON.parse(text) as PlanReport;
    },
  };
}
