/** The page: its parts as the server sends them, and all of it with its data in one file. */
import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';

import type { PageData } from '../data.ts';
import { filePolicy } from './guard.ts';

/** `scripts/build.ts` puts script and style of the page here. */
declare const KEYFERRY_PAGE: { readonly script: string; readonly style: string };

export const page = (): typeof KEYFERRY_PAGE => KEYFERRY_PAGE;

const TITLE = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Keyferry</title>';
const BODY = '<body><noscript>This page needs JavaScript.</noscript></body></html>';

export const INDEX = `<!doctype html><html lang="en"><head>${TITLE}<link rel="icon" href="/icon.svg"><link rel="stylesheet" href="/page.css"><script src="/page.js" defer></script></head>${BODY}`;
/** Two boxes: a copy behind its original. */
export const ICON =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><path fill="#7d95b4" d="M5 1h10v10h-2V3H5z"/><path fill="#2f5d9b" d="M1 5h10v10H1z"/></svg>';

const hashOf = (text: string): string => `sha256-${createHash('sha256').update(text).digest('base64')}`;

/** The page with its data as one file, which needs no network. */
export function pageFile(data: PageData): string {
  const { script, style } = page();
  const packed = gzipSync(JSON.stringify(data)).toString('base64');
  const policy = filePolicy({ script: hashOf(script), style: hashOf(style) });
  return [
    `<!doctype html><html lang="en"><head><meta http-equiv="content-security-policy" content="${policy}">${TITLE}`,
    `<style>${style}</style></head><body><noscript>This page needs JavaScript.</noscript>`,
    `<script type="text/plain" id="data">${packed}</script><script>${script}</script></body></html>\n`,
  ].join('');
}
