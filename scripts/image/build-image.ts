/** Builds the image: runs all steps, from the inputs to the files in `dist/image`. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import type { BundledPackage } from '../bundled-packages.ts';
import { imageLabels, type ImageSource } from './config.ts';
import { imageInputs } from './inputs.ts';
import type { Architecture } from './inputs.ts';
import { addImage, writeDockerArchive, writeIndex } from './oci.ts';
import { imageSbom } from './sbom.ts';
import { makeTrees } from './trees.ts';

/**
 * Replaces the content of `folder` by the OCI layout (`oci`), the archives for `docker load`, and the SBOMs.
 * @param bundle - path of `dist/keyferry.cjs`
 * @returns the paths of the archives
 */
export function buildImage(
  architectures: readonly Architecture[],
  bundle: string,
  folder: string,
  source: ImageSource,
): string[] {
  const { version } = source;
  const layout = path.join(folder, 'oci');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(layout, { recursive: true });
  const labels = imageLabels(source);
  const bundled = readFileSync(path.join(path.dirname(bundle), 'bundled-packages.json'), 'utf8');
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
      const name = `keyferry-${version}-${architecture}`;
      const sbom = imageSbom(architecture, source, JSON.parse(bundled) as BundledPackage[]);
      writeFileSync(path.join(folder, `${name}.cdx.json`), `${JSON.stringify(sbom, null, 2)}\n`);
      const archive = path.join(folder, `${name}.tar`);
      writeDockerArchive(layout, image, archive);
      return archive;
    });
  } finally {
    rmSync(temporary, { recursive: true });
  }
}
