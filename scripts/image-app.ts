/**
 * `node scripts/image-app.ts FOLDER`: writes the layer of Keyferry itself into `FOLDER`, after `npm run build`. The
 * `Dockerfile` uses this script; `npm run image` makes the whole image.
 */
import path from 'node:path';

import { makeApp } from './image/app.ts';

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: node scripts/image-app.ts FOLDER');
makeApp(path.join(import.meta.dirname, '../dist/keyferry.cjs'), path.resolve(folder));
