/** Makes images that contain a single static program, as archives for `ctr image import`. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';

/** The image of the pause container, the first process of each Pod. */
export const PAUSE_IMAGE = 'localhost/keyferry-test/pause:1';

const OWNED_BY_ROOT = ['--owner=0', '--group=0', '--numeric-owner'];

/**
 * Writes the archive of an image.
 * @param image - name and tag of the image
 * @param program - path of the program. It becomes the entry point
 * @param folder - a folder for the archive and its parts. It must not exist yet
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
