/**
 * `node scripts/image-app.ts FOLDER`: writes the image layer with Keyferry into `FOLDER`. Run `npm run build` first.
 * The `Dockerfile` uses this script; `npm run image` makes the whole image without it.
 */
import path from 'node:path';

import { makeApp } from './image/app.ts';

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: node scripts/image-app.ts FOLDER');
makeApp(path.join(import.meta.dirname, '../dist/keyferry.cjs'), path.resolve(folder));
