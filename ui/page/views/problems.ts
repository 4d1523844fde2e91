/** One item for each cause: what happened, since when, the words of the server, and who ends it and how. */
import { sentence, someOf } from '../../../src/runtime/text/texts.ts';
import { listAddress, objectAddress } from '../address.ts';
import type { App } from '../app.ts';
import { bdi, type Child, el, glyph, link } from '../dom.ts';
import { titleOf } from '../model.ts';
import { adviceOn, type Problem, problemsOf } from '../problems.ts';
import { LOOK } from '../states.ts';
import { age, copies, count } from '../text.ts';

export function problemsView(app: App): Child[] {
  const problems = problemsOf(app.model);
  const { orphans } = app.model.data;
  return [
    el`<h1>${problems.length === 0 ? 'Every copy is up to date' : count(problems.length, 'problem')}</h1>`,
    problemList(app, problems),
    orphans.length > 0 && el`<h2>${copies(orphans.length)} without a rule</h2>`,
    el`<ul>${orphans.map(
      (one) => el`<li><span class="glyph orphan" aria-hidden="true">◇ </span>
      ${link(objectAddress(one), titleOf(one))}: ${bdi(one.reason)}</li>`,
    )}</ul>`,
  ];
}

export function problemList(app: App, problems: readonly Problem[]): HTMLElement {
  return el`<ul class="problems">${problems.map((problem) => item(app, problem))}</ul>`;
}

function item({ model, now }: App, { rows, state, what, groups, reason, message, since }: Problem): HTMLElement {
  const [group, ...others] = groups;
  const names = someOf([...new Set(group?.targets.map((one) => one.namespace || one.name) ?? [])], 3);
  const rest = others.map((one) => `${copies(one.targets.length)} ${LOOK[one.state].word} (${one.reason})`);
  const links = rows.map(({ rule, title }, at) => [at > 0 && ' → ', link(objectAddress(rule), title)]);
  return el`<li class="problem">${glyph(state)}<div>
    <h2>${links} — ${what}</h2>
    <p>${names !== '' && bdi(message === '' ? `${names}. ` : `${names}: `)}${message !== '' && bdi(`${sentence(message)} `)}
      ${advice(model, reason)}${rest.length > 0 && `Also ${rest.join(', ')}. `}
      ${group !== undefined && link(listAddress('map', { q: rows[0]?.title ?? '' }), 'Show on the map')}</p>
    </div><span class="since">${since !== null && `since ${age(since, now)}`}</span></li>`;
}

/** Who ends it, and how. */
export function advice(model: App['model'], reason: string): Child {
  const found = adviceOn(model, reason);
  return (
    found !== undefined &&
    found.how !== '' && [el`<strong>${sentence(found.who).slice(0, -1)}</strong>`, `: ${sentence(found.how)} `]
  );
}
