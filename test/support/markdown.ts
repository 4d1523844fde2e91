/** Reads code blocks and headings from a Markdown page, for tests of the documentation. */

export interface CodeBlock {
  /** The nearest heading above the block. */
  readonly heading: string;
  /** The first word after the opening fence: `yaml`. */
  readonly language: string;
  /** The words after the language. They tell the tests what to do with the block. */
  readonly mark: string;
  readonly text: string;
}

const FENCE = /^ *```(\S*) *(.*)$/;
const HEADING = /^#+ (.*)$/;

export function codeBlocks(markdown: string): CodeBlock[] {
  const blocks: CodeBlock[] = [];
  let heading = '';
  let open: { readonly language: string; readonly mark: string; readonly lines: string[] } | undefined;
  for (const line of markdown.split('\n')) {
    const [, language = '', mark = ''] = FENCE.exec(line) ?? [];
    const isFence = FENCE.test(line);
    if (open === undefined) {
      if (isFence) open = { language, mark, lines: [] };
      else heading = HEADING.exec(line)?.[1] ?? heading;
    } else if (isFence) {
      blocks.push({ heading, language: open.language, mark: open.mark, text: open.lines.join('\n') });
      open = undefined;
    } else {
      open.lines.push(line);
    }
  }
  return blocks;
}

/** The text of a page without its code blocks. */
export function prose(markdown: string): string {
  return markdown.replaceAll(/^ *```[^]*?^ *```$/gm, '');
}

/** The anchors of all headings, as GitHub makes them. */
export function anchors(markdown: string): Set<string> {
  const headings = [...prose(markdown).matchAll(/^#+ (.*)$/gm)].map(([, text = '']) => text);
  return new Set(
    headings.map((text) =>
      text
        .toLowerCase()
        .replaceAll(/[^\w -]/g, '')
        .replaceAll(' ', '-'),
    ),
  );
}
