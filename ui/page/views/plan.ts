/** What manifests would change: paste or drop them. The map of the changed rules alone; nothing is written. */
import type { PlanReport } from '../../../scripts/reports/schemas.ts';
import type { PageRule } from '../../data.ts';
import type { App } from '../app.ts';
import { bdi, h } from '../dom.ts';
import type { MapView } from '../map.ts';
import { modelOf } from '../model.ts';
import type { State } from '../states.ts';
import { count } from '../text.ts';
import { table } from './namespace.ts';

type Action = PlanReport['targets'][number]['action'];

/** Actions that change nothing have no mark. */
const MARKS: Readonly<Partial<Record<Action, State>>> = {
  create: 'ok',
  adopt: 'ok',
  update: 'pending',
  replace: 'pending',
  delete: 'bad',
  conflict: 'refused',
  fail: 'refused',
  wait: 'waiting',
};
const WORDS = {
  ok: 'would be created',
  pending: 'would be updated',
  bad: 'would be deleted or emptied',
  refused: 'would be refused',
  waiting: 'would wait',
} as const;

export class PlanView {
  readonly element: HTMLElement;
  readonly #map: MapView;
  readonly #result = h('div', { 'aria-live': 'polite' });
  readonly #input = h('textarea', {
    rows: 10,
    spellcheck: 'false',
    'aria-label': 'Manifests as YAML or JSON',
    placeholder: 'Paste manifests, or drop files here',
  });
  readonly #plan: App['plan'];

  constructor(plan: App['plan'], map: MapView) {
    this.#plan = plan;
    this.#map = map;
    const button = h('button', { type: 'button', click: () => void this.#run() }, 'Show what would change');
    this.element = h(
      'div.plan',
      h(
        'div.text',
        h('h1', 'Plan'),
        h(
          'p',
          plan === undefined
            ? 'A report has no server that could plan. Run keyferry ui.'
            : 'What would the cluster’s copies be after kubectl apply? The API server checks the manifests by a dry run. Nothing is written.',
        ),
        plan !== undefined && this.#input,
        plan !== undefined && h('p', button),
      ),
      this.#result,
    );
    this.#input.addEventListener('dragover', (event) => event.preventDefault());
    this.#input.addEventListener('drop', (event) => {
      const files = [...(event.dataTransfer?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      void Promise.all(files.map(async (file) => await file.text())).then(
        (texts) => (this.#input.value = texts.join('\n---\n')),
      );
    });
  }

  async #run(): Promise<void> {
    this.#result.replaceChildren(h('p.filter', 'Planning …'));
    try {
      if (this.#plan !== undefined) this.#show(await this.#plan(this.#input.value));
    } catch (error) {
      this.#result.replaceChildren(
        h('p.filter.bad', { role: 'alert' }, '✕ ', bdi(error instanceof Error ? error.message : String(error))),
      );
    }
  }

  #show({ targets, problems, notes, unchanged }: PlanReport): void {
    const rules = [...Map.groupBy(targets, ({ rule }) => rule)].map(([title, all]) => ruleOf(title, all));
    const { rows, columns } = modelOf(frameOf(rules));
    const lost = targets.filter((target) => target.lost).length;
    const isShown = rows.length > 0;
    this.#map.set({
      rows,
      columns,
      order: 'alike',
      open: undefined,
      otherOrder: '#plan',
      foldAddress: () => '#plan',
      words: WORDS,
    });
    const legend = (Object.keys(WORDS) as (keyof typeof WORDS)[]).map((state) =>
      h('span', h(`i.mark.${state}`, { 'aria-hidden': 'true' }), WORDS[state]),
    );
    this.#result.replaceChildren(
      h(
        'div.text',
        h(
          'h2',
          targets.length === 0
            ? 'No copy would change'
            : `${count(targets.length, 'copy', 'copies')} would change or be refused`,
        ),
        lost > 0 && h('p.bad', h('strong', `✕ Data of ${count(lost, 'copy', 'copies')} would be lost.`)),
        h('p', `${count(unchanged, 'copy', 'copies')} would not change.`),
        ...problems.map(({ rule, problem }) => h('p.bad', '✕ ', bdi(`${rule}: ${problem}`))),
        ...notes.map(({ rule, note }) => h('p', bdi(`${rule}: ${note}`))),
      ),
      ...(isShown ? [h('div.strip', this.#map.element), h('p.legend', ...legend)] : []),
      ...(isShown
        ? [
            h(
              'div.text',
              table(
                'What would change',
                ['Action', 'Object', 'Namespace', 'Rule', 'Why'],
                targets.map((one) => [
                  `${one.lost ? '✕ ' : ''}${one.action}`,
                  bdi(`${one.kind} ${one.name}`),
                  bdi(one.namespace),
                  bdi(one.rule),
                  bdi(one.reason),
                ]),
              ),
            ),
          ]
        : []),
    );
  }
}

/** A rule as the map draws it: with the targets that would change. */
function ruleOf(title: string, targets: PlanReport['targets']): PageRule {
  const [, kind = title, namespace = '', name = ''] = /^(\S+) ([^/]*)\/(.*)$/.exec(title) ?? [];
  const states: Readonly<Record<State, PageRule['failing'][number]['state'] | undefined>> = {
    bad: 'error',
    pending: 'pending',
    waiting: 'waiting',
    ok: undefined,
    refused: undefined,
    unknown: undefined,
  };
  const marked = targets.flatMap((target) => {
    const mark = MARKS[target.action];
    return mark === undefined ? [] : [{ target, mark }];
  });
  const fields = {
    source: '',
    destinations: [],
    from: null,
    since: null,
    isCounted: true,
    lastSyncTime: null,
    warnings: [],
  };
  return {
    ...fields,
    id: title,
    system: targets[0]?.system ?? '',
    kind,
    namespace,
    name,
    state: '',
    ready: false,
    reason: '',
    message: '',
    copies: marked
      .filter(({ mark }) => mark === 'ok')
      .map(({ target }) => ({ kind: target.kind, namespace: target.namespace, name: target.name, sourceVersion: '' })),
    failing: marked.flatMap(({ target, mark }) => {
      const state = states[mark];
      return state === undefined
        ? []
        : [
            {
              kind: target.kind,
              namespace: target.namespace,
              name: target.name,
              state,
              reason: target.action,
              message: target.reason,
            },
          ];
    }),
    refused: marked
      .filter(({ mark }) => mark === 'refused')
      .map(({ target }) => ({ namespace: target.namespace, reason: target.action, message: target.reason })),
  };
}

function frameOf(rules: readonly PageRule[]) {
  return {
    at: '',
    cluster: '',
    leaders: [],
    notes: [],
    orphans: [],
    ruleNames: '',
    requiresConsent: false,
    namespaces: null,
    advice: {},
    rules,
  };
}
