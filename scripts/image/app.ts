/** Writes the image layer with Keyferry: bundle, launcher, and links with the names of the original programs. */
import { chmodSync, cpSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import path from 'node:path';

import { CONTROLLER_COMMANDS } from '../../src/config/commands.ts';
import { ENTRY_POINT, NODE_PATH } from './config.ts';
import { writeIn } from './write-in.ts';

const ROOT = path.join(import.meta.dirname, '..', '..');
const LAUNCHER = '/app/bin/keyferry.cjs';

/**
 * Writes the layer of Keyferry into the folder `tree`.
 * @param bundle - path of `dist/keyferry.cjs`
 */
export function makeApp(bundle: string, tree: string): void {
  const launcher = readFileSync(path.join(ROOT, 'bin/keyferry.cjs'), 'utf8');
  // The image has no `env`, so the first line of the launcher (`#!/usr/bin/env node`) must name Node itself.
  writeIn(tree, LAUNCHER, launcher.replace(/^#!.*/, `#!${NODE_PATH}`));
  chmodSync(path.join(tree, LAUNCHER), 0o755);
  for (const file of ['bin/node-flags.cjs', 'LICENSE'])
    writeIn(tree, `app/${file}`, readFileSync(path.join(ROOT, file), 'utf8'));
  mkdirSync(path.join(tree, 'app/dist'));
  cpSync(bundle, path.join(tree, 'app/dist/keyferry.cjs'));
  const originals = CONTROLLER_COMMANDS.flatMap(({ original }) =>
    original === undefined
      ? []
      : [original.binary, original.olderBinary].flatMap((binary) => (binary === undefined ? [] : `/${binary}`)),
  );
  for (const link of [ENTRY_POINT, ...originals]) {
    mkdirSync(path.dirname(path.join(tree, link)), { recursive: true });
    symlinkSync(LAUNCHER, path.join(tree, link));
  }
}
