/** One item for each cause: what happened, since when, the words of the server, and who ends it and how. */
import { listAddress, objectAddress } from '../address.ts';
import type { App } from '../app.ts';
import { bdi, copyButton, h, link } from '../dom.ts';
import { mender, type Problem, problemsOf } from '../problems.ts';
import { LOOK } from '../states.ts';
import { problemsText } from '../markdown.ts';
import { age, count, sentence, some } from '../text.ts';

export function problemsView(app: App): HTMLElement[] {
  const problems = problemsOf(app.model);
  const { orphans } = app.model.data;
  return [
    h(
      'div.text',
      h('h1', problems.length === 0 ? 'Every copy is up to date' : count(problems.length, 'problem')),
      problems.length > 0 && copyButton('Copy as text', () => problemsText(app.model)),
    ),
    h('ul.problems', ...problems.map((problem) => problemItem(app, problem))),
    orphans.length > 0 &&
      h(
        'div.text',
        h('h2', `${count(orphans.length, 'copy', 'copies')} without a rule`),
        h(
          'ul',
          ...orphans.map((one) =>
            h(
              'li',
              h('span.glyph.orphan', { 'aria-hidden': 'true' }, '◇ '),
              link(objectAddress(one), bdi(`${one.kind} ${one.namespace}/${one.name}`)),
              ': ',
              bdi(one.reason),
            ),
          ),
        ),
      ),
  ].filter((part) => part !== false);
}

export function problemItem({ model, now }: App, problem: Problem): HTMLElement {
  const { rows, state, what, groups, reason, message, since } = problem;
  const [group, ...others] = groups;
  const names = some([...new Set(group?.targets.map(({ namespace }) => namespace) ?? [])], 3);
  const advice = mender(model, reason);
  const [first] = rows;
  const rest = others.map(
    ({ reason: why, targets, state: one }) => `${count(targets.length, 'copy', 'copies')} ${LOOK[one].word} (${why})`,
  );
  return h(
    'li.problem',
    h(`span.glyph.${state}`, { title: LOOK[state].word }, LOOK[state].glyph),
    h(
      'div',
      h(
        'h2',
        ...rows.flatMap(({ rule, title }, at) => [at > 0 && ' → ', link(objectAddress(rule), bdi(title))]),
        ` — ${what}`,
      ),
      h(
        'p',
        names !== '' && bdi(message === '' ? `${names}. ` : `${names}: `),
        message !== '' && bdi(`${sentence(message)} `),
        advice !== undefined && h('strong', advice.who),
        advice !== undefined && ` ${advice.how} `,
        rest.length > 0 && `Also ${rest.join(', ')}. `,
        first !== undefined && group !== undefined && link(listAddress('map', { q: first.title }), 'Show on the map'),
      ),
    ),
    h('span.since', since === null ? '' : `since ${age(since, now)}`),
  );
}
