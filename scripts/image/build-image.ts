/** All steps from the inputs to the files of the image. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { imageInputs } from './inputs.ts';
import type { Architecture } from './inputs.ts';
import { addImage, writeDockerArchive, writeIndex } from './oci.ts';
import { makeTrees } from './trees.ts';

/**
 * Replaces `folder` by the layout `oci` and the archives for `docker load`.
 * @param bundle - path of `dist/keyferry.cjs`
 * @returns the paths of the archives
 */
export function buildImage(
  architectures: readonly Architecture[],
  bundle: string,
  folder: string,
  version: string,
): string[] {
  const layout = path.join(folder, 'oci');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(layout, { recursive: true });
  const labels = {
    'org.opencontainers.image.title': 'keyferry',
    'org.opencontainers.image.description':
      'Copies Secrets and ConfigMaps between namespaces and clusters, and Secrets to and from Vault',
    'org.opencontainers.image.version': version,
    'org.opencontainers.image.licenses': 'Apache-2.0',
    'org.opencontainers.image.source': 'https://github.com/keyferry/keyferry',
  };
  const temporary = mkdtempSync(path.join(tmpdir(), 'keyferry-image-'));
  try {
    const images = architectures.map((architecture) => {
      const work = path.join(temporary, architecture);
      mkdirSync(work);
      const trees = makeTrees(imageInputs(architecture), bundle, work);
      return { architecture, image: addImage(layout, architecture, trees, `keyferry:${version}`, labels) };
    });
    writeIndex(
      layout,
      images.map(({ image }) => image),
      version,
      labels,
    );
    return images.map(({ architecture, image }) => {
      const file = path.join(folder, `keyferry-${version}-${architecture}.tar`);
      writeDockerArchive(layout, image, file);
      return file;
    });
  } finally {
    rmSync(temporary, { recursive: true });
  }
}
