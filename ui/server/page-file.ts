/** The page: its parts as the server sends them, and all of it with its data in one file. */
import { gzipSync } from 'node:zlib';

import type { PageData } from '../data.ts';
import { filePolicy } from './guard.ts';

/** `scripts/build.ts` puts script and style of the page here. */
declare const KEYFERRY_PAGE: { readonly script: string; readonly style: string };

const html = (head: string, body = ''): string =>
  `<!doctype html><html lang="en"><head><meta charset="utf-8">${head}<meta name="viewport" content="width=device-width">
  <title>Keyferry</title></head><body><noscript>This page needs JavaScript.</noscript>${body}</body></html>\n`;
const INDEX = html(
  '<link rel="icon" href="/icon.svg"><link rel="stylesheet" href="/page.css"><script src="/page.js" defer></script>',
);
/** Two boxes: a copy behind its original. */
const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#7d95b4" d="M5 1h10v10h-2V3H5z"/><path fill="#2f5d9b" d="M1 5h10v10H1z"/></svg>';

/** What the server sends to everybody, with its type: it has no data. */
export const partsOfPage = (): ReadonlyMap<string, readonly [string, string]> =>
  new Map([
    ['GET /', ['text/html', INDEX]],
    ['GET /page.js', ['text/javascript', KEYFERRY_PAGE.script]],
    ['GET /page.css', ['text/css', KEYFERRY_PAGE.style]],
    ['GET /icon.svg', ['image/svg+xml', ICON]],
  ]);

/** The page with its data as one file, which needs no network. */
export function pageFile(data: PageData): string {
  const { script, style } = KEYFERRY_PAGE;
  const packed = gzipSync(JSON.stringify(data)).toString('base64');
  const policy = `<meta http-equiv="content-security-policy" content="${filePolicy(script, style)}">`;
  const body = `<script type="text/plain" id="data">${packed}</script><script>${script}</script>`;
  return html(`${policy}<style>${style}</style>`, body);
}
