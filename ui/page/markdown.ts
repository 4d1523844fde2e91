/** What a view shows, as Markdown for an incident. */

/** What is there to be used, not to be read. */
const SKIPPED = 'canvas, button, input, textarea, .hidden, .top, .sentence, .legend, .command';

/** A text of a user: no character of it makes Markdown. */
const plain = (text: string): string => text.replaceAll(/\s+/g, ' ').replaceAll(/[\\`*_[\]<>|#!~]/g, String.raw`\$&`);

export function markdownOf(place: Element): string {
  return `${block(place)
    .replaceAll(/[ \t]+\n/g, '\n')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim()}\n`;
}

function block(node: Node): string {
  if (!(node instanceof HTMLElement)) return node instanceof Text ? plain(node.data) : '';
  if (node.matches(SKIPPED)) return '';
  if (node.localName === 'tr') return `|${Array.from(node.children, (cell) => ` ${block(cell).trim()} |`).join('')}\n`;
  const inside = Array.from(node.childNodes, (child) => block(child)).join('');
  switch (node.localName) {
    case 'h1':
    case 'h2':
      return node.closest('li') === null ? `\n\n**${inside.trim()}**\n\n` : inside;
    case 'thead':
      return `\n\n${inside}|${'---|'.repeat(node.querySelectorAll('th').length)}\n`;
    case 'li':
      return `- ${inside.trim().replaceAll(/\n+/g, '\n  ')}\n`;
    case 'dt':
      return `- ${inside}: `;
    case 'p':
    case 'ul':
      return `\n${inside}\n`;
    case 'div':
    case 'dd':
    case 'section':
      return `${inside}\n`;
    default:
      return getComputedStyle(node.parentElement ?? node).display === 'flex' ? `${inside} ` : inside;
  }
}
