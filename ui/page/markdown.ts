/** What a view shows, as Markdown for an incident. Pure. */
import type { Place } from '../data.ts';
import { groupsOf, linksOf, type Model, placeKey, type Row, type Target, titleOf } from './model.ts';
import { namespaceFacts } from './namespace-facts.ts';
import { mender, problemsOf } from './problems.ts';
import { LOOK } from './states.ts';
import { count, sentence, some, visible } from './text.ts';

/** A text of a user: no character of it makes Markdown. */
function plain(text: string): string {
  return visible(text)
    .replaceAll('\n', ' ')
    .replace(/[\\`*_[\]<>|#!]/g, String.raw`\$&`);
}

function head({ data }: Model): string {
  return `Keyferry, ${plain(data.cluster)}, ${data.at}\n\n`;
}

export function problemsText(model: Model): string {
  const lines = problemsOf(model).map(({ rows, what, groups, message, reason, since }) => {
    const names = some([...new Set(groups[0]?.targets.map(({ namespace }) => namespace) ?? [])], 10);
    const advice = mender(model, reason);
    const parts = [
      `- **${plain(rows.map(({ title }) => title).join(' → '))}**: ${plain(what)}${since === null ? '' : ` (since ${since})`}.`,
      names === '' ? '' : ` In ${plain(names)}.`,
      message === '' ? '' : ` ${plain(sentence(message))}`,
      advice === undefined ? '' : ` ${plain(`${advice.who} ${advice.how}`)}`,
    ];
    return `${parts.join('')}\n`;
  });
  return `${head(model)}${lines.length === 0 ? 'Every copy is up to date.\n' : lines.join('')}`;
}

export function objectText(model: Model, place: Place): string {
  const links = linksOf(model);
  const key = placeKey(place);
  const makers = (links.makers.get(key) ?? []).map(
    ([{ title, rule }, target]) => `- made by ${plain(title)} from ${plain(rule.source)}: ${cause(target)}\n`,
  );
  const rows = [...new Set([...(links.rules.get(key) ?? []), ...(links.users.get(key) ?? [])])];
  const rules = rows.map(({ title, rule, targets }) => {
    const groups = groupsOf(targets).map((group) => {
      const names = some(
        group.targets.map(({ namespace }) => namespace),
        10,
      );
      const [first] = group.targets;
      return `  - ${count(group.targets.length, 'copy', 'copies')} ${first === undefined ? '' : cause(first)}: ${plain(names)}\n`;
    });
    return `- ${plain(title)} copies ${plain(rule.source)}: ${plain(`${rule.state}, ${rule.reason}`)}\n${groups.join('')}`;
  });
  return `${head(model)}**${plain(titleOf(place))}**\n\n${makers.join('')}${rules.join('')}`;
}

export function namespaceText(model: Model, name: string): string {
  const { incoming, outgoing, who } = namespaceFacts(model, name);
  const lines = [
    ...incoming.map(
      ([{ rule, title }, target]) =>
        `- in: ${plain(`${target.kind} ${target.name}`)} from ${plain(rule.source)} by ${plain(title)}: ${cause(target)}\n`,
    ),
    ...outgoing.map(
      ({ rule, title }) =>
        `- out: ${plain(title)} into ${plain(rule.destinations.join(', '))}: ${plain(rule.reason)}\n`,
    ),
  ];
  return `${head(model)}**Namespace ${plain(name)}**. ${plain(who)}\n\n${lines.join('')}`;
}

export function tableText(rows: readonly (readonly [Row, Target | undefined])[]): string {
  const lines = rows.map(([{ rule, title }, target]) => {
    const cells = [
      title,
      rule.source,
      target?.namespace ?? '',
      target === undefined ? '' : `${target.kind} ${target.name}`,
    ].map((cell) => plain(cell));
    return `| ${cells.join(' | ')} | ${target === undefined ? plain(rule.reason) : cause(target)} |\n`;
  });
  return `| rule | source | namespace | copy | state |\n|---|---|---|---|---|\n${lines.join('')}`;
}

function cause({ state, reason, message }: Target): string {
  return `${LOOK[state].word}${reason === '' ? '' : plain(` (${reason}${message === '' ? '' : `: ${message}`})`)}`;
}
