/** Loaded before a test file: keeps compiled modules on disk, so that not every process of the tests compiles them. */
import { enableCompileCache } from 'node:module';
import path from 'node:path';

enableCompileCache(path.join(import.meta.dirname, '../node_modules/.cache/keyferry'));
