/** What manifests would change: paste or drop them. The map of the changed rules alone; nothing is written. */
import type { PlanReport } from '../../../scripts/reports/schemas.ts';
import { bdi, type Child, el, legend, table } from '../dom.ts';
import { MapView } from '../map.ts';
import { cellsOf, columnsOf, type Row, type Target } from '../model.ts';
import { copies, type State, worse } from '../words.ts';

type Planned = PlanReport['targets'][number];

/** The marks, their words, and the actions that they stand for. Actions that change nothing have no mark. */
const MARKS: readonly (readonly [State, string, readonly Planned['action'][]])[] = [
  ['ok', 'would be created', ['create', 'adopt']],
  ['pending', 'would be updated', ['update', 'replace']],
  ['bad', 'would be deleted or emptied', ['delete']],
  ['refused', 'would be refused', ['conflict', 'fail']],
  ['waiting', 'would wait', ['wait']],
];

const WORDS = new Map(MARKS.map(([state, word]) => [state, word]));

/** @param plan `undefined`: a report file has no server */
export function planView(plan: ((manifests: string) => Promise<PlanReport>) | undefined): HTMLElement {
  const result = el`<div aria-live="polite"></div>`;
  if (plan === undefined)
    return el`<div><h1>Plan</h1><p>A report has no server that could plan. Run keyferry ui.</p></div>`;
  const map = new MapView();
  const run = async (): Promise<void> => {
    result.replaceChildren(el`<p class="filter">Planning …</p>`);
    const shown = await plan(input.value).then(
      (report) => reportView(report, map),
      (error: Error) => el`<p class="filter bad" role="alert">✕ ${bdi(error.message)}</p>`,
    );
    result.replaceChildren(shown);
  };
  const drop = async (event: DragEvent): Promise<void> => {
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length > 0) event.preventDefault();
    const texts = await Promise.all(files.map(async (file) => await file.text()));
    if (texts.length > 0) input.value = texts.join('\n---\n');
  };
  const input = el`<textarea rows="10" spellcheck="false" aria-label="Manifests as YAML or JSON"
    placeholder="Paste manifests, or drop files here" dragover=${(event: Event) => event.preventDefault()}
    drop=${(event: DragEvent) => void drop(event)}></textarea>` as HTMLTextAreaElement;
  return el`<div class="plan"><h1>Plan</h1>
    <p>What would the cluster’s copies be after kubectl apply? The API server checks the manifests by a dry run. Nothing is written.</p>
    ${input}<p><button type="button" click=${() => void run()}>Show what would change</button></p>${result}</div>`;
}

function reportView({ targets, problems, notes, unchanged }: PlanReport, map: MapView): HTMLElement {
  const rows = [...Map.groupBy(targets, ({ rule }) => rule)].map(([title, all]) => rowOf(title, all));
  const lost = targets.filter((target) => target.lost).length;
  map.set({ rows, columns: columnsOf(rows), order: 'alike', words: WORDS });
  const lines = targets.map(({ lost, action, kind, name, namespace, rule, reason }): Child[] => {
    return [`${lost ? '✕ ' : ''}${action}`, `${kind} ${name}`, namespace, rule, reason];
  });
  const list = table('What would change', ['Action', 'Object', 'Namespace', 'Rule', 'Why'], lines);
  const many = `${copies(targets.length)} would change or be refused`;
  return el`<div><h2>${targets.length === 0 ? 'No copy would change' : many}</h2>
    ${lost > 0 && el`<p class="bad"><strong>✕ Data of ${copies(lost)} would be lost.</strong></p>`}
    <p>${copies(unchanged)} would not change.</p>
    ${problems.map(({ rule, problem }) => el`<p class="bad">✕ ${bdi(`${rule}: ${problem}`)}</p>`)}
    ${notes.map(({ rule, note }) => el`<p>${bdi(`${rule}: ${note}`)}</p>`)}
    ${rows.length > 0 && [el`<div class="strip">${map.element}</div>`, legend(MARKS), list]}</div>`;
}

/** A rule as the map draws it: with the targets that would change. */
function rowOf(title: string, planned: readonly Planned[]): Row {
  const [, kind = title, namespace = '', name = ''] = /^(\S+) ([^/]*)\/(.*)$/.exec(title) ?? [];
  const targets = planned.flatMap(({ action, reason, ...place }): Target[] => {
    const [state] = MARKS.find(([, , actions]) => actions.includes(action)) ?? [];
    return state === undefined ? [] : [{ ...place, state, reason: action, message: reason }];
  });
  const rule = { kind, namespace, name, id: title, system: '' };
  const state = targets.reduce<State>((all, one) => worse(all, one.state), 'ok');
  return { rule, title, remark: '', state, targets, ...cellsOf(targets) };
}
