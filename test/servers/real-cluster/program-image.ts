/** Makes images with one static program, as archives that `ctr image import` reads. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

/** The image of the first process of each Pod. */
export const PAUSE_IMAGE = 'localhost/keyferry-test/pause:1';

const OWNED_BY_ROOT = ['--owner=0', '--group=0', '--numeric-owner'];

/**
 * Writes the archive of an image.
 * @param image - its name, with a tag
 * @param program - path of the program, which is the entry point
 * @param folder - for the archive and its parts; it must not exist
 * @returns the path of the archive
 */
export async function writeProgramImage(image: string, program: string, folder: string): Promise<string> {
  const name = path.basename(program);
  const tree = path.join(folder, 'tree');
  await mkdir(path.join(tree, 'tmp'), { recursive: true });
  await copyFile(program, path.join(tree, name));
  const tar = async (file: string, from: string, entries: readonly string[]): Promise<void> => {
    await promisify(execFile)('tar', ['-cf', path.join(folder, file), ...OWNED_BY_ROOT, '-C', from, ...entries]);
  };
  await tar('layer.tar', tree, ['--mode=a+rX', name, 'tmp']);
  const digest = createHash('sha256').update(await readFile(path.join(folder, 'layer.tar')));
  const config = {
    architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
    os: 'linux',
    config: { Entrypoint: [`/${name}`] },
    rootfs: { type: 'layers', diff_ids: [`sha256:${digest.digest('hex')}`] },
  };
  const manifest = [{ Config: 'config.json', RepoTags: [image], Layers: ['layer.tar'] }];
  await writeFile(path.join(folder, 'config.json'), JSON.stringify(config));
  await writeFile(path.join(folder, 'manifest.json'), JSON.stringify(manifest));
  await tar('image.tar', folder, ['manifest.json', 'config.json', 'layer.tar']);
  return path.join(folder, 'image.tar');
}
