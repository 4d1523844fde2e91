/**
 * `node scripts/image-app.ts FOLDER`: writes what is Keyferry's own in the image into `FOLDER`, after `npm run build`. The `Dockerfile`
 * uses it; `npm run image` makes the whole image.
 */
import path from 'node:path';

import { makeApp } from './image/app.ts';

const [folder] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: node scripts/image-app.ts FOLDER');
makeApp(path.join(import.meta.dirname, '../dist/keyferry.cjs'), path.resolve(folder));
